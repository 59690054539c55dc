"""Makes the files of this folder out of clones of the repositories in SOURCES.md. See README.md beside this file.

CLONES holds one clone of each repository by its name (`intercode`, `tau-bench`, `tau2-bench`, `inspect_ai`,
`agent-trajectory-sentinel`, `entireio-cli`, `cipher-box`, `context-evaluator`, `agentv`, `spotter`, `pi-mono`; for
optional sets `mini-swe-agent`, `balrog` for balrog-ai/experiments and `multi-swe-bench` for
multi-swe-bench/experiments), bare (`intercode.git`) or not. Files are read from the commits below, whatever is checked
out, and without a network. The same clones give the same bytes.

Usage: python datasets/atlas/build.py CLONES OUT [--only SET ...] [--texts] [--folder FOLDER ...]
"""  # noqa: INP001 - a script beside its data

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, get_args

from episodes import BALROG_CAPS, READERS
from tqdm.auto import tqdm

from boolab import Run, load_runs, save_runs
from boolab.core.types import StopReason
from boolab.io.json_input import Damage, json_document
from boolab.logs.facts import facts_of
from boolab.logs.log_files import readers

INTERCODE: Final = "c3e46d827cfc9d4c704ec078f7abf9f41e3191d8"
TAU: Final = "59a200c6d575d595120f1cb70fea53cef0632f6b"
TAU2_MERGED: Final = "1b67be7813943253b9f3c12620507d961087ec2c"
TAU2_BRANCH: Final = "29510b1d0d47dbe502ada30079c642bd0d172ed9"
INSPECT: Final = "2b9870e5fc0eac7b32e5d897dd7e4745b263bff8"
MINI: Final = "dfddc50722219a13b052c236cb68ffdded161621"
SENTINEL: Final = "040eb2b74aeab2ed420e2979669f80b18f90370f"
MULTI_SWE_BENCH: Final = "89888f1604001fcd80b0799a37af42a1bfebfd8f"
BALROG: Final = "989931c5f7acb66ace99d423a480fd537d74e749"
ENTIRE: Final = "394f81fab87f71aa8938d91ff7a067c524ff344b"
CIPHER_BOX: Final = "e227f1183b594fa6bd5dbe58c75272434067e89b"
CONTEXT_EVALUATOR: Final = "63679d4764ce74bb41f8e5794f6183d43ea9ee88"
AGENTV: Final = "47dca0eea369e545808f72dd9473c846f66dd79f"
SPOTTER: Final = "8cc42b0bd39d04e71e509d7d58e6782ab435329f"
PI: Final = "83378aad7e74a0e2bb8f37c007a9685fb4609d8a"

_TOO_LARGE: Final = "over 4 MiB: the copy of the repository that the atlas was made from lacks it"
ABSENT: Final[Mapping[str, tuple[int | None, str]]] = {
    # To include one, take its line out; the files of its set then change.
    "f759a9f3205140d6e07e86d6c7d2c0e8485cb3e7": (53, _TOO_LARGE),  # as many as the other files of these tasks have
    "303ee85957d7c49d73a438179f35f062e51a1491": (None, _TOO_LARGE),
    "583eadf6754b8451aeda5dd074f84a83cbfcc693": (None, _TOO_LARGE),
    "1b4dce5772658ce4069e4d381b0ac4b0967f7747": (None, _TOO_LARGE),
    "e4e494737db6fce34f42323f8afc5948f53f2cd7": (1, _TOO_LARGE),
    "95b8efda10ccf6b767186ca24f61c6907b92429a": (None, _TOO_LARGE),
}
"""Blobs that are left out although they are results like the others: how many runs each has (None: unknown), and why.

They are left out of any clone, so that a complete one gives the same bytes.
"""


class Part(NamedTuple):
    """Some files of one commit. The patterns are regular expressions for whole paths in it."""

    clone: str
    commit: str
    reader: str
    logs: str
    left_out: Mapping[str, str] = {}
    """Patterns of logs that are read, counted and left out, each with the reason."""
    beside: Mapping[str, str] = {}
    """Patterns of the files that the reader looks for beside the logs, each with the template of its place."""
    model: str = ""
    """The model, where the logs do not name it: a template for the groups of `logs`."""
    limits: Mapping[str, int] = {}
    """The harness's limits, where the logs do not name them, by their counters; cost is in micro-dollars."""
    states_more: bool = False
    """Whether some logs state another number of responses than they hold, which is no reason to refuse them."""
    settings: Mapping[str, str] = {}
    """Settings of each run."""
    candidates: str = ""
    """The pattern of the logs that `logs` were chosen from; the others are counted, in one row of the exclusions."""


class Set(NamedTuple):
    """One file of the atlas."""

    name: str
    parts: tuple[Part, ...]
    agent_ends: bool = False
    """Whether the agent decides that a run is over, and not the environment or the user."""
    sessions: bool = False
    """Whether the runs are sessions of people, whose task is what they wrote, and no name that may stay."""


class Exclusion(NamedTuple):
    """Runs that are not in the set. How many is None if it is unknown."""

    set: str
    place: str
    runs: int | None
    reason: str


def _intercode(environment: str, left_out: Mapping[str, str] | None = None) -> tuple[Part]:
    logs = rf"data/results/{environment}/.*\.json"
    return (Part("intercode", INTERCODE, "intercode", logs, left_out or {}),)


def _tau2(domain: str) -> tuple[Part, ...]:
    """The merged submission, and the branch of the repository's owner."""
    folder = "web/leaderboard/public/submissions/toolorchestra_nvidia_2025-12-02"
    merged = Part(
        "tau2-bench",
        TAU2_MERGED,
        "tau2_bench",
        rf"{folder}/trajectories/toolorchestra_{domain}_.*\.json",
        beside={rf"{folder}/submission\.json": r"\g<0>"},
    )
    folders = "(data/exp|src/experiments/(eval/data|model_training/results))"
    branch = Part("tau2-bench", TAU2_BRANCH, "tau2_bench", rf"{folders}/.*_{domain}_.*\.json")
    return merged, branch


_ONE_TURN: Final = "one turn: no limit could have stopped it earlier"
_PLAN: Final = "plan and solve: the response with the plan is not in the log"
_PERSON: Final = "a person, not a model"
_AIRLINE: Final = r"historical_trajectories/(.*)-airline\.json"
_JAVA: Final = r"evaluation/java/verified/[^/]*/"
_SWE: Final = r"benchmarks/swe_bench/resources/tests/20240620_sweagent_claude3\.5sonnet/"

_FAULTS_OF_QWEN: Final = (
    "(?:autogen|langgraph)(?:7b(?:_real2?)?)?",
    "demo_real_varied(?:_ext)?",
    "ollama(?:7b)?",
    "real_ollama7b",
    "real_research3b",
    "real_research7b(?:_long(?:_drift|_ext)?)?",
    "real_task_rollback",
)
"""The corpora with faults whose model is one of Qwen 2.5 under the Apache licence: those of Llama and Gemini have terms
of their own."""


def _sentinel(corpus: str, beside: Mapping[str, str] | None = None) -> Part:
    manifest = {rf"traces/{corpus}/manifest\.json": r"\g<0>"}
    logs = rf"traces/{corpus}/[^/]+\.jsonl"
    return Part("agent-trajectory-sentinel", SENTINEL, "sentinel", logs, beside={**manifest, **(beside or {})})


_CHECKPOINT: Final = r"[0-9a-f]{2}/[0-9a-f]{10}/[0-9]+/full\.jsonl"
"""The log of a session as it was at a commit, on the branch `entire/checkpoints/v1` of its repository."""


def _checkpoints(clone: str, commit: str, reader: str, chosen: str) -> Part:
    """Sessions by the checkpoints that have the most of each."""
    logs = rf"(?:{'|'.join(chosen.split())})/full\.jsonl"
    return Part(clone, commit, reader, logs, states_more=True, settings={"corpus": clone}, candidates=_CHECKPOINT)


_SESSIONS: Final = (
    _checkpoints(
        "entireio-cli",
        ENTIRE,
        "claude_code",
        "43/2b48f6b6e6/0 5e/5207b424e2/0 72/0c20f08988/0 89/7eb280e769/12 8e/a9e4a4e751/0 "
        "b6/f735fbac66/0 cc/90f6622c5b/1 cd/95adddad32/0 f0/c3dbdad0d8/0 f5/dab3d95bc1/0",
    ),
    _checkpoints(
        "cipher-box",
        CIPHER_BOX,
        "claude_code",
        "01/485d538f55/1 49/85d640fadb/0 49/85d640fadb/8 81/2995ab46e2/3 "
        "94/4ab984b10d/0 af/1dd25ebb3e/8 e8/9fb6a2d646/0 fc/71f7dc4708/1",
    ),
    _checkpoints(
        "context-evaluator",
        CONTEXT_EVALUATOR,
        "claude_code",
        "08/abd1da0817/0 16/b343528434/0 4a/3f7ea6273b/0 8c/758360e7fb/1 "
        "8f/2ac5b863c7/0 c8/946606a339/0 db/6d4034b8cc/2 ee/7e610ffc3f/0",
    ),
    _checkpoints(
        "agentv",
        AGENTV,
        "codex",
        "0b/9f2ac6f3aa/1 0b/9f2ac6f3aa/3 1f/4427577930/0 79/6eaddfe2f9/0 "
        "96/eca76f596a/0 a6/0726a7452e/1 b9/220e73bdf9/1 f4/771ece9d37/0",
    ),
    Part(
        "spotter",
        SPOTTER,
        "claude_code",
        r"test/fixtures/transcripts/(?:258c7280|4d5611e5|8463c716|ae4a77f8|fa812bfe)[0-9a-f-]*"
        r"(?:/subagents/agent-(?!acompact)[0-9a-f]+)?\.jsonl",
        states_more=True,
        settings={"corpus": "spotter"},
    ),
    Part(
        "pi-mono",
        PI,
        "pi",
        r"packages/coding-agent/test/fixtures/(?:before-compaction|large-session)\.jsonl",
        states_more=True,
        settings={"corpus": "pi-mono"},
    ),
)

SETS: Final = (
    Set(
        "intercode-sql",
        _intercode("sql", {r".*[-_]1_turns.*": _ONE_TURN, r".*_plan_solve.*": _PLAN, r".*/human/.*": _PERSON}),
    ),
    Set("intercode-bash", _intercode("bash", {r".*_plan_solve.*": _PLAN})),
    Set("intercode-ctf", _intercode("ctf")),
    Set("intercode-python", _intercode("python")),
    Set("tau-airline", (Part("tau-bench", TAU, "tau_bench", _AIRLINE, model=r"\1", limits={"steps": 30}),)),
    *(Set(f"tau2-{domain}", _tau2(domain)) for domain in ("airline", "retail", "telecom")),
    Set(
        "swebench-verified",
        (
            Part(
                "inspect_ai",
                INSPECT,
                "swe_agent",
                _SWE + r"trajs/.*\.traj",
                beside={_SWE + r"(results/results\.json|metadata\.yaml)": r"\g<0>"},
                limits={"cost": 4_000_000},
                states_more=True,  # 40 of them state one or two more
            ),
        ),
        agent_ends=True,
    ),
    Set(
        "sentinel-booking",
        tuple(
            _sentinel(
                f"organic_demo7b{arm}",
                beside={rf"results/tables/organic_hallucination{arm}\.csv": f"traces/organic_demo7b{arm}/labels.csv"},
            )
            for arm in ("", "_cold", "_ext", "_holdout")
        ),
        agent_ends=True,
    ),
    Set("sentinel-faults", (_sentinel(rf"(?:{'|'.join(_FAULTS_OF_QWEN)})"),), agent_ends=True),
    Set("coding-sessions", _SESSIONS, sessions=True),
)
"""The sets that are shipped."""


def _balrog(game: str) -> Set:
    episode = rf"submissions/(?:LLM|VLM)/.*/{game}/.*_run_\d+"
    return Set(
        f"balrog-{game}",
        (Part("balrog", BALROG, "balrog", rf"{episode}\.json", beside={rf"{episode}\.csv": r"\g<0>"}),),
    )


OPTIONAL: Final = (
    *map(_balrog, BALROG_CAPS),
    Set("sentinel-llama", (_sentinel("ollama_llama8b"),), agent_ends=True),
    Set("sentinel-gemini", (_sentinel("real(?:_gemini_long)?"),), agent_ends=True),
    Set(
        "multi-swe-bench-java",
        (
            Part(
                "multi-swe-bench",
                MULTI_SWE_BENCH,
                "swe_agent",
                _JAVA + r"trajs/.*\.traj",
                beside={_JAVA + r"(results/results\.json|metadata\.yaml)": r"\g<0>"},
                states_more=True,
            ),
        ),
        agent_ends=True,
    ),
    Set(
        "mini-swebench",
        tuple(
            Part(
                "mini-swe-agent",
                MINI,
                "mini_swe_agent",
                rf"output/{logs}/.*\.traj\.json",
                beside={rf"logs/run_evaluation/{evaluation}/.*/(.*)/report\.json": rf"output/{logs}/\1/report.json"},
            )
            for logs, evaluation in (
                ("deepseek_bench1", "deepseek_bench1_eval"),
                ("deepseek_bench_dev", "deepseek_bench_eval"),
                ("deepseek_lite_dev", "deepseek_lite_dev"),
            )
        ),
        agent_ends=True,
    ),
)
"""Sets that are not shipped, which `--only` makes of one's own clones."""


class Clone:
    """A clone of a repository, of which files of any commit are read.

    Args:
        path: The clone, bare or not.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, clones: Path, name: str) -> Clone:
        """The clone of that name in the folder."""
        found = [path for path in (clones / name, clones / f"{name}.git") if path.is_dir()]
        if not found:
            raise SystemExit(f"{clones} holds neither {name} nor {name}.git; SOURCES.md lists the repositories")
        return cls(found[0])

    def tree(self, commit: str) -> dict[str, str]:
        """The blobs of a commit by their paths, in the order of these."""
        rows = (row.split("\t", 1) for row in self._git("ls-tree", "-rz", commit).decode().split("\0") if row)
        return dict(sorted((path, about.split()[2]) for about, path in rows))

    def contents(self, blobs: Sequence[str]) -> Iterator[bytes]:
        """What the blobs hold."""
        answer = self._git("cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs).encode())
        start = 0
        for blob in blobs:
            end = answer.index(b"\n", start)
            _, kind, *size = answer[start:end].decode().split()
            if not size:
                raise SystemExit(f"{self.path}: blob {blob} is {kind}; is the clone complete?")
            start = end + 1 + int(size[0])
            yield answer[end + 1 : start]
            start += 1

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}  # a partial clone would ask its server
        command = ["git", "-C", str(self.path), *arguments]
        done = subprocess.run(command, input=given, capture_output=True, check=False, env=environment)  # noqa: S603 - git
        if done.returncode:
            raise SystemExit(f"{self.path}: git {arguments[0]} failed: {done.stderr.decode().strip()}")
        return done.stdout


def runs_of_part(clones: Path, part: Part, name: str) -> tuple[list[Run], list[Exclusion]]:
    """The runs of a part of the set of that name, and what is left out of it."""
    clone = Clone.of(clones, part.clone)
    tree = clone.tree(part.commit)
    matches = [match for path in tree if (match := re.fullmatch(part.logs, path))]
    excluded = [
        Exclusion(name, f"{match[0]} (blob {tree[match[0]]})", *ABSENT[tree[match[0]]])
        for match in matches
        if tree[match[0]] in ABSENT
    ]
    matches = [match for match in matches if tree[match[0]] not in ABSENT]
    places = {match[0]: match[0] for match in matches}
    for pattern, template in part.beside.items():
        places |= {path: match.expand(template) for path in tree if (match := re.fullmatch(pattern, path))}
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        for (_, place), content in zip(places.items(), clone.contents([tree[path] for path in places]), strict=True):
            file = _under(folder, place)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        for match in tqdm(matches, desc=name, unit=" files", leave=False, disable=None):
            file = _under(folder, match[0])
            reason = next((why for pattern, why in part.left_out.items() if re.fullmatch(pattern, match[0])), None)
            if reason is None:
                model = match.expand(part.model)
                found = _read(file, part.reader, states_more=part.states_more)
                runs += [
                    replace(
                        run,
                        model=run.model or model,
                        limits={**part.limits, **run.limits},
                        settings={**part.settings, **run.settings},
                    )
                    for run in found
                ]
                excluded += [] if found else [Exclusion(name, match[0], 1, "not in the manifest of its corpus")]
            else:
                excluded.append(Exclusion(name, match[0], len(json_document(file, Damage(file))), reason))
    if part.candidates:
        n_others = sum(re.fullmatch(part.candidates, path) is not None for path in tree) - len(matches)
        excluded.append(Exclusion(name, f"{part.clone}: {part.candidates}", n_others, _NOT_CHOSEN))
    return runs, excluded


_NOT_CHOSEN: Final = (
    "not chosen: another state of a session, or one with fewer requests, without its beginning or without prices"
)


def _under(folder: str, path: str) -> Path:
    return Path(folder, path.replace(":", "-"))  # not every file system has names with colons


def _read(file: Path, reader: str, *, states_more: bool) -> list[Run]:
    damage = Damage(file)
    runs = READERS[reader](file, damage) if reader in READERS else readers()[reader].read(file, damage)
    if states_more:
        damage.inconsistencies.clear()
    damage.report(_refuse, readable=bool(runs))
    return runs


def _refuse(warning: str) -> None:
    raise SystemExit(f"a log cannot be read completely: {warning}")


def runs_of_set(clones: Path, one: Set) -> tuple[list[Run], list[Exclusion]]:
    """The runs of a set as they are shipped, and what is left out of it."""
    runs: list[Run] = []
    excluded: list[Exclusion] = []
    for part in one.parts:
        new, without = runs_of_part(clones, part, one.name)
        runs += new
        excluded += without
    kept, more = usable(runs, one.name)
    return [_of_set(run, one) for run in kept], [*excluded, *more]


def usable(runs: Sequence[Run], name: str) -> tuple[list[Run], list[Exclusion]]:
    """The runs that have a model's name and a step, and how many have not."""
    reasons = {run.run_id: "no step" if not run.steps else "no model's name" if not run.model else "" for run in runs}
    counts = Counter(reason for reason in reasons.values() if reason)
    excluded = [Exclusion(name, "single runs", count, reason) for reason, count in sorted(counts.items())]
    return [run for run in runs if not reasons[run.run_id]], excluded


def _of_set(run: Run, one: Set) -> Run:
    """The run with the set as a setting, and a task whose name no other set has.

    Scores and labels are left out, because `success` is made of them, and the harness's version and its bill, which
    only tau2-bench has. The task of a session is left to `facts_of`, which puts a number in its place.
    """
    solo = run.agent.endswith("_solo")  # tau2-bench's agent without a user
    agent_ends = one.agent_ends or solo or run.settings.get("prompting") == "react"
    settings = {"set": one.name, "ended_by": "agent" if agent_ends else "environment", **run.settings}
    if one.sessions:
        return replace(run, settings=settings)
    domain = one.name.partition("-")[2]
    return replace(
        run,
        task=f"{one.name}/{task_name(run.task.removeprefix(f'{domain}/'))}",
        scores=(),
        labels=(),
        harness_version=None,
        stated_cost=None,
        settings=settings,
    )


def task_name(task: str) -> str:
    """The task's name; of a long one with other characters, its first word and a part of its SHA-256."""
    if re.fullmatch(r"[\w.:/@#+=*-]{1,60}", task, re.ASCII):
        return task
    words = re.findall(r"\w+", task, re.ASCII) or ["task"]
    return f"{words[0]}-{hashlib.sha256(task.encode()).hexdigest()[:8]}"


def write_set(runs: Sequence[Run], folder: Path, name: str, *, texts: bool) -> Path:
    """Write the file of a set, and return its path. Facts are without fingerprints, which would double its size."""
    path = folder / (f"{name}.jsonl" if texts else f"{name}.jsonl.bz2")
    save_runs(runs if texts else (replace(run, prints=()) for run in facts_of(runs)), path)
    return path


def count_rows(runs: Sequence[Run], name: str) -> Iterator[list[str | int]]:
    """Rows of counts.csv: of the set, then of each of its models."""
    models = Counter(run.model for run in runs)
    for model in ("", *sorted(models)):
        some = [run for run in runs if model in ("", run.model)]
        cut = Counter(run.stop_reason for run in some)
        yield [
            name,
            model or "all",
            len(some),
            sum(run.success is True for run in some),
            sum(run.n_steps for run in some),
            *(cut[reason] for reason in _REASONS),
        ]


_REASONS: Final = get_args(StopReason)


def _write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the files."""
    parser = argparse.ArgumentParser(description="Make the files of the atlas out of clones of its sources.")
    parser.add_argument("clones", type=Path, help="the folder that holds the clones")
    parser.add_argument("out", type=Path, help="the folder for the files")
    known = {one.name: one for one in (*SETS, *OPTIONAL)}
    parser.add_argument("--only", nargs="+", choices=known, metavar="SET", help=f"some sets: {', '.join(known)}")
    parser.add_argument("--texts", action="store_true", help="keep all texts, in SET.jsonl; for your own use")
    parser.add_argument(
        "--folder",
        type=Path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="folders of logs with outcomes beside them, such as a submission to SWE-bench's experiments (trajs/ and "
        "results/results.json) or a job of Harbor: a set each",
    )
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    chosen = [known[name] for name in given.only] if given.only else [] if given.folder else list(SETS)
    files: list[Path] = []
    counts: list[list[str | int]] = []
    excluded: list[Exclusion] = []
    for one in tqdm(chosen, desc="sets", disable=None):
        runs, without = runs_of_set(given.clones, one)
        files.append(write_set(runs, given.out, one.name, texts=given.texts))
        counts += count_rows(runs, one.name)
        excluded += without
    for folder in given.folder:
        one = Set(folder.name, (), agent_ends=True)
        runs, without = usable(load_runs(folder), one.name)
        runs = [_of_set(run, one) for run in runs]
        files.append(write_set(runs, given.out, one.name, texts=given.texts))
        counts += count_rows(runs, one.name)
        excluded += without
    _write_table(given.out / "counts.csv", ("set", "model", "runs", "successes", "steps", *_REASONS), counts)
    _write_table(given.out / "exclusions.csv", Exclusion._fields, excluded)
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (given.out / "SHA256SUMS").write_text(sums)


if __name__ == "__main__":
    main()
