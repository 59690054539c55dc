"""tau-bench: `historical_trajectories/*.json` and the output of `run.py`; see github.com/sierra-research/tau-bench.

A list of `{task_id, trial, reward, info, traj}`. Each assistant message is a step, each message of the simulated user
opens a turn. The harness calls the model at most `max_num_steps` times (30), and stops earlier if the user writes
`###STOP###` or a tool transfers to a human. A run that did neither and is as long as the longest was stopped by the
cap; a run with `###STOP###` after the 30th step had finished.

There are no times, tokens or finish reasons. A result that begins with `Error` is an error, and so is `Unknown action
...`, which the environment returns for a tool that it does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import Stop, StopReason
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, items, json_document, json_text, mapping, text, whole
from boolab.io.packed import open_unpacked
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, content_text, full_reward, make_unique, reward_of, scores_of

NAME: Final = "tau_bench"
SCOPE: Final = "run"
SUFFIXES: Final = (".json",)
PLACES: Final = ()
LOOKED_FOR: Final = 'a JSON list of objects with "task_id" and "traj"'
CAP: Final = 30
"""The harness's default for `max_num_steps`."""

_STOP: Final = "###STOP###"
_TRANSFER: Final = "transfer_to_human_agents"
_FAILED: Final = ("Error", "Unknown action ")
_REACT: Final = "API output:"
_DOMAINS: Final = ("airline", "retail")


def sniff(head: Head) -> bool:
    """Whether this is a tau-bench file. Its few-shot files are recognised, and refused by `read`."""
    if "messages_display" in head.first:
        return True
    entry = mapping(items(head.values[0])[:1][0]) if head.values and items(head.values[0]) else {}
    return "task_id" in entry and ("traj" in entry or {"reward", "info"} <= entry.keys())


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file."""
    with open_unpacked(path) as file:
        if file.read(64).lstrip().startswith(b'{"messages_display"'):
            msg = "few-shot demonstrations of tau-bench: dialogues for a prompt without call arguments, not runs"
            raise RunFormatError(msg, path=path, line=1)
    document = json_document(path, damage)
    if not isinstance(document, list):
        raise RunFormatError(f"a tau-bench file is {LOOKED_FOR}", path=path, line=1)
    entries = []
    for number, entry in enumerate(document, 1):
        if isinstance(entry, dict) and isinstance(entry.get("traj"), list) and "task_id" in entry:
            entries.append(entry)
        else:
            damage.note(1, f"entry {number} has no task_id or no traj")
    dialogues = [_Dialogue(path, entry, damage) for entry in entries]
    cap = _cap(dialogues)
    group = next((domain for domain in _DOMAINS if domain in path.name.lower()), path.stem)
    id_counts: Counter[str] = Counter()
    runs = []
    for dialogue in dialogues:
        run_id = make_unique(f"{path.stem}/{dialogue.task_id}/{dialogue.trial}", id_counts)
        runs.append(dialogue.run(run_id, f"{group}/{dialogue.task_id}", cap))
    return runs


def _cap(dialogues: Sequence[_Dialogue]) -> int | None:
    """The cap that stopped a run, if one did: the length of the longest runs, if one of them did not end by itself."""
    longest = max((len(dialogue.builder.steps) for dialogue in dialogues), default=0)
    stops = sum(len(dialogue.builder.steps) == longest and not dialogue.has_ended for dialogue in dialogues)
    return longest if longest and stops and (longest == CAP or stops > 1) else None


class _Dialogue:
    """Builds the run of one entry."""

    def __init__(self, path: Path, entry: Mapping[str, Any], damage: Damage) -> None:
        info = mapping(entry.get("info"))
        self.task_id = entry["task_id"] if isinstance(entry["task_id"], int | str) else json_text(entry["task_id"])
        self.trial = whole(entry.get("trial")) or 0
        self.reward = entry.get("reward")
        self.error = text(info.get("error")) or None
        self.builder = RunBuilder(NAME, damage)
        self.last: Mapping[str, Any] = {}
        for message in items(entry["traj"]):
            self._take(path, mapping(message))

    @property
    def has_ended(self) -> bool:
        """Whether the user ended the dialogue, or the agent transferred it."""
        role, steps = self.last.get("role"), self.builder.steps
        if role == "user":
            return _STOP in content_text(self.last.get("content"))
        return role == "tool" and bool(steps) and any(call.name == _TRANSFER for call in steps[-1].calls)

    def _take(self, path: Path, message: Mapping[str, Any]) -> None:
        role, content = message.get("role"), content_text(message.get("content"))
        if role == "assistant":
            reply = self.builder.add_response()
            reply.text.append(content)
            reply.reasoning.append(text(message.get("reasoning_content")))
            self.builder.add_openai_calls(reply, message.get("tool_calls"))
        elif role == "tool":
            self.builder.add_result(text(message.get("tool_call_id")), content, is_error=content.startswith(_FAILED))
        elif role in ("user", "system"):
            if content.startswith(_REACT):
                msg = "a ReAct transcript of tau-bench: its calls are inside the texts; only tool-calling runs are read"
                raise RunFormatError(msg, path=path, line=1)
            self.builder.add_message(role, content, opens_turn=role == "user")
        else:
            return
        self.last = message

    def run(self, run_id: str, task: str, cap: int | None) -> Run:
        stop: StopReason | Stop = "finished" if self.has_ended else "aborted"
        limits: dict[str, int] = {}
        if self.error is not None and not self.has_ended:
            stop = "error"
        elif cap is not None and len(self.builder.steps) == cap and not self.has_ended:
            stop, limits = self.builder.cap_stop(cap, "max_num_steps"), {"steps": cap}
        return self.builder.build(
            run_id,
            stop,
            task=task,
            success=full_reward(self.reward),
            scores=scores_of({"reward": reward_of(self.reward)}),
            error=self.error,
            limits=limits,
        )
