"""Count, by plain code of its own, what a correct reader must report for the sample trajectories.

Run it with `python -m tests.readers.derive`. It shares no code with the package. Each format becomes a list of marks
per run (a user speaks, a response comes, a call is asked for, a result comes back), and one function counts marks.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.readers.expected import EXPECTED, Expected

DATA: Final = Path(__file__).resolve().parents[3] / "shared" / "data"


class Mark(NamedTuple):
    """One thing that happened: `user`, `step`, `call` or `result`."""

    kind: str
    key: Any = None
    """Of a step: the id of its response (None: a response of its own). Of a call and its result: the call's id."""
    tokens: tuple[int, int] | None = None
    """Of a step: input with everything cached, and output with the reasoning."""
    error: bool | None = None
    """Of a result."""


class Counts(NamedTuple):
    """The numbers of one run, or of all runs of a file."""

    runs: int
    steps: int
    calls: int
    errors: int | None
    dropped: int
    turns: int
    input_tokens: int | None
    output_tokens: int | None
    successes: int | None


class Log(NamedTuple):
    """The marks of one run, and its label."""

    marks: list[Mark]
    success: bool | None = None


def add(values: Iterable[int | None]) -> int | None:
    """Sum, unknown as soon as one part is unknown; nothing sums to 0."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def count(log: Log) -> Counts:
    """Count the marks of one run."""
    steps: dict[Any, tuple[int, int] | None] = {}
    waiting: list[Any] = []
    errors: list[int | None] = []
    turns, asked = 0, True
    for number, mark in enumerate(log.marks):
        if mark.kind == "user":
            asked = True
        elif mark.kind == "step":
            key = ("own", number) if mark.key is None else mark.key
            if key not in steps and asked:
                turns, asked = turns + 1, False
            old, new = steps.get(key), mark.tokens
            steps[key] = (max(old[0], new[0]), max(old[1], new[1])) if old and new else new or old
        elif mark.kind == "call":
            waiting.append(mark.key)
        elif mark.key in waiting:
            waiting.remove(mark.key)
            errors.append(None if mark.error is None else int(mark.error))
    return Counts(
        runs=1,
        steps=len(steps),
        calls=len(errors),
        errors=add(errors),
        dropped=len(waiting),
        turns=turns,
        input_tokens=add(tokens and tokens[0] for tokens in steps.values()),
        output_tokens=add(tokens and tokens[1] for tokens in steps.values()),
        successes=None if log.success is None else int(log.success),
    )


def total(logs: Iterable[Log]) -> Counts:
    """Sum over the runs that have a step or a prompt."""
    runs = [count(log) for log in logs if any(mark.kind in {"user", "step"} for mark in log.marks)]
    labels = [run.successes for run in runs if run.successes is not None]
    return Counts(
        runs=len(runs),
        steps=sum(run.steps for run in runs),
        calls=sum(run.calls for run in runs),
        errors=add(run.errors for run in runs),
        dropped=sum(run.dropped for run in runs),
        turns=sum(run.turns for run in runs),
        input_tokens=add(run.input_tokens for run in runs),
        output_tokens=add(run.output_tokens for run in runs),
        successes=sum(labels) if labels else None,
    )


def load(path: Path) -> Any:
    """Parse a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def lines(path: Path) -> list[Any]:
    """Parse a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def blocks(content: Any) -> list[dict[str, Any]]:
    """Return content as a list of blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in content or []]


NO_TURN: Final = ("[Request interrupted", "<local-command-", "<command-", "<system-reminder>", "Caveat: The messages")
"""How user lines of Claude Code begin that no user wrote."""


def spoken(parts: list[dict[str, Any]]) -> bool:
    """Say whether a user wrote something in these blocks."""
    return any(
        part.get("type") in {"image", "document"}
        or (part.get("type") == "text" and not str(part.get("text", "")).startswith(NO_TURN))
        for part in parts
    )


def claude_usage(usage: dict[str, Any] | None) -> tuple[int, int] | None:
    """Input with what was written to and read from the cache, and output."""
    if not usage:
        return None
    cached = usage.get("cache_creation_input_tokens") or 0, usage.get("cache_read_input_tokens") or 0
    return usage["input_tokens"] + sum(cached), usage["output_tokens"]


def claude_line(line: dict[str, Any]) -> Iterator[Mark]:
    """Read one user or assistant line: a response has its message's id, else its request's."""
    message = line["message"]
    parts = blocks(message.get("content"))
    if line["type"] == "assistant":
        if message.get("model") == "<synthetic>":
            return
        yield Mark("step", message.get("id") or line.get("requestId"), claude_usage(message.get("usage")))
        yield from (Mark("call", part.get("id")) for part in parts if part["type"] == "tool_use")
        return
    results = [part for part in parts if part["type"] == "tool_result"]
    yield from (Mark("result", part.get("tool_use_id"), error=bool(part.get("is_error"))) for part in results)
    if not (results or line.get("isMeta") or line.get("isCompactSummary")) and spoken(parts):
        yield Mark("user")


def claude_code(path: Path) -> list[Log]:
    """One run per agent: the main line, side chains, and each agent id."""
    entries = load(path)["loglines"] if path.suffix == ".json" else lines(path)
    runs: dict[Any, list[Mark]] = {}
    for line in entries:
        if isinstance(line, dict) and line.get("type") in {"user", "assistant"}:
            runs.setdefault(line.get("agentId") or bool(line.get("isSidechain")), []).extend(claude_line(line))
    return [Log(marks) for marks in runs.values()]


def chat(messages: Iterable[dict[str, Any]]) -> Iterator[Mark]:
    """Read messages in the shape of OpenAI's chat API; they do not say whether a tool failed."""
    for message in messages:
        if message["role"] == "user":
            yield Mark("user")
        elif message["role"] == "assistant":
            yield Mark("step")
            yield from (Mark("call", call["id"]) for call in message.get("tool_calls") or ())
        elif message["role"] == "tool":
            yield Mark("result", message["tool_call_id"])


def tau_bench(path: Path) -> list[Log]:
    """Chat messages; a result that begins with `Error` is an error, another is none."""
    logs = []
    for run in load(path):
        answers = iter([str(m["content"]).startswith("Error") for m in run["traj"] if m["role"] == "tool"])
        marks = [m._replace(error=next(answers)) if m.kind == "result" else m for m in chat(run["traj"])]
        logs.append(Log(marks, run["reward"] == 1.0))
    return logs


def openai_chat(path: Path) -> list[Log]:
    """One conversation; a `response` beside the messages (a log of one request) is its last message."""
    top = load(path)
    marks = list(chat(top["messages"]))
    if "response" in top:
        usage = top["response"]["usage"]
        marks.append(Mark("step", None, (usage["prompt_tokens"], usage["completion_tokens"])))
        marks += [Mark("call", call["id"]) for call in top["response"]["choices"][0]["message"]["tool_calls"]]
    return [Log(marks)]


def swe_agent(path: Path) -> list[Log]:
    """Entries of `trajectory`; where there is none, the assistant's own messages in `history`."""
    top = load(path)
    entries = top.get("trajectory")
    if entries is None:
        own = [m for m in top["history"] if not (m.get("is_demo") or m.get("message_type") == "demonstration")]
        entries = [m for m in own if m["role"] == "assistant"]
    marks = [Mark("user")]
    for entry in entries:
        marks.append(Mark("step"))
        if entry["action"].strip():
            marks += [Mark("call"), Mark("result")]
    return [Log(marks)]


def mini_swe_agent(path: Path) -> list[Log]:
    """Text mode: one fenced block is one call, the next user message is its result."""
    marks, waiting = [], False
    for message in load(path):
        if message["role"] == "assistant":
            found = re.findall(r"```(?:mswea_bash_command|bash)\n", message["content"])
            marks += [Mark("step"), *(Mark("call") for _ in found)]
            waiting = bool(found)
        elif message["role"] == "user":
            code = re.match(r"<returncode>(-?\d+)</returncode>", message["content"])
            marks.append(Mark("result", error=int(code[1]) != 0 if code else None) if waiting else Mark("user"))
            waiting = False
    return [Log(marks)]


def opencode_call(state: dict[str, Any], key: Any) -> list[Mark]:
    """A call, and its result unless it never ended; a command that left with a code other than 0 failed."""
    if state["status"] not in {"completed", "error"}:
        return [Mark("call", key)]
    failed = state["status"] == "error" or bool((state.get("metadata") or {}).get("exit"))
    return [Mark("call", key), Mark("result", key, error=failed)]


def opencode(path: Path) -> list[Log]:
    """A session file, with its messages and their parts from the folders beside `session`."""
    storage = path.parents[2]
    messages = [load(file) for file in (storage / "message" / load(path)["id"]).glob("*.json")]
    marks = []
    for message in sorted(messages, key=lambda message: message["time"]["created"]):
        if message["role"] == "user":
            marks.append(Mark("user"))
            continue
        tokens = message.get("tokens")
        cache = (tokens or {}).get("cache") or {}
        sent = tokens and tokens["input"] + cache.get("read", 0) + cache.get("write", 0)
        marks.append(Mark("step", None, tokens and (sent, tokens["output"] + tokens.get("reasoning", 0))))
        for part in map(load, sorted((storage / "part" / message["id"]).glob("*.json"))):
            if part["type"] == "tool":
                marks += opencode_call(part["state"], part["callID"])
    return [Log(marks)]


CODEX_MODEL: Final = ("reasoning", "function_call", "custom_tool_call", "tool_search_call", "local_shell_call")
CODEX_SERVER: Final = ("web_search_call", "image_generation_call")
"""Calls that the server runs itself: they have a status, never an output."""


def codex_error(output: Any) -> bool | None:
    """Read the exit code at the head of the text, or in the JSON, that the harness wrote."""
    if isinstance(output, str) and output.startswith("{"):
        left = (json.loads(output).get("metadata") or {}).get("exit_code")
        return None if left is None else left != 0
    code = re.match(r"(?:Exit code: |Process exited with code )(-?\d+)", str(output))
    return int(code[1]) != 0 if code else None


class Codex:
    """The state in which rollout lines are read: which step is open, and how many tokens were counted."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.step = 0
        self.closed = True
        self.counted: Any = None

    def model(self) -> None:
        """Something of the model's: the first after a boundary opens a step."""
        self.step += self.closed
        self.closed = False
        self.marks.append(Mark("step", self.step))

    def item(self, item: dict[str, Any]) -> None:
        """Read one response item."""
        kind, role = item["type"], item.get("role")
        if kind in CODEX_MODEL + CODEX_SERVER or role == "assistant":
            self.model()
        if kind in CODEX_SERVER:
            self.marks += [Mark("call", "server"), Mark("result", "server")]
        elif kind in CODEX_MODEL[1:]:
            self.marks.append(Mark("call", item["call_id"]))
        elif kind.endswith("_output"):
            self.marks.append(Mark("result", item["call_id"], error=codex_error(item.get("output"))))
            self.closed = True
        elif role == "user" and not str(item["content"][0].get("text")).startswith("<"):
            self.marks.append(Mark("user"))
            self.closed = True

    def event(self, event: dict[str, Any]) -> None:
        """Read one event where there are no response items."""
        if event["type"] == "user_message":
            self.marks.append(Mark("user"))
            self.closed = True
        elif event["type"] in {"agent_message", "agent_reasoning"}:
            self.model()

    def tokens(self, info: dict[str, Any] | None) -> None:
        """Read a count of tokens, unless it is the last one again."""
        if info and info["total_token_usage"] != self.counted:
            self.counted, last = info["total_token_usage"], info["last_token_usage"]
            self.marks.append(Mark("step", self.step, (last["input_tokens"], last["output_tokens"])))
            self.closed = True


def codex(path: Path) -> list[Log]:
    """One stream is read: the response items, or the events where there are none."""
    entries, state = lines(path), Codex()
    stream = "response_item" if any(line["type"] == "response_item" for line in entries) else "event_msg"
    for line in entries:
        payload = line.get("payload") or {}
        if payload.get("type") == "token_count":
            state.tokens(payload.get("info"))
        elif line["type"] == stream:
            (state.item if stream == "response_item" else state.event)(payload)
    return [Log(state.marks)]


def gemini(path: Path) -> list[Log]:
    """A whole-file session; `input` includes what was cached, `thoughts` come on top of `output`."""
    marks = []
    for message in load(path)["messages"]:
        if message["type"] == "user":
            marks.append(Mark("user"))
        elif message["type"] == "gemini":
            used = message["tokens"]
            sent, made = used["input"] + used["tool"], used["output"] + used["thoughts"]
            marks.append(Mark("step", message["id"], (sent, made)))
            for call in message.get("toolCalls", ()):
                marks += [Mark("call", call["id"]), Mark("result", call["id"], error=call["status"] != "success")]
    return [Log(marks)]


def inspect_usage(usage: dict[str, int] | None) -> tuple[int, int] | None:
    """Take the total, as providers differ in whether input includes what was cached."""
    return (usage["total_tokens"] - usage["output_tokens"], usage["output_tokens"]) if usage else None


def inspect_sample(sample: dict[str, Any]) -> Log:
    """Read the conversation; usage comes from the model events, from the front."""
    events = sample.get("events") or (sample.get("transcript") or {}).get("events") or ()
    used = iter([event["output"].get("usage") for event in events if event["event"] == "model"])
    marks = [Mark("user")]
    for message in sample["messages"]:
        if message["role"] == "user":
            marks.append(Mark("user"))
        elif message["role"] == "assistant":
            marks.append(Mark("step", None, inspect_usage(next(used, None))))
            marks += [Mark("call", call["id"]) for call in message.get("tool_calls") or ()]
        elif message["role"] == "tool":
            marks.append(Mark("result", message["tool_call_id"], error=bool(message.get("error"))))
    scores = [score["value"] for score in (sample.get("scores") or {}).values()]
    return Log(marks, scores[0] == "C" if scores else None)


def inspect(path: Path) -> list[Log]:
    """A JSON log, or a ZIP with a file for each sample."""
    if path.suffix == ".json":
        return [inspect_sample(sample) for sample in load(path).get("samples") or ()]
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        return [inspect_sample(json.loads(archive.read(name))) for name in names]


def openhands(path: Path) -> list[Log]:
    """V0 events: actions of one response share its id; an observation names its action as its cause."""
    marks = []
    for event in load(path):
        action, meta = event.get("action"), event.get("tool_call_metadata")
        if event.get("source") == "user" and action == "message":
            marks.append(Mark("user"))
        elif event.get("source") == "agent" and action == "message":
            marks.append(Mark("step"))
        elif action and meta:
            usage = meta["model_response"]["usage"]
            used = usage["prompt_tokens"], usage["completion_tokens"]
            marks += [Mark("step", meta["model_response"]["id"], used), Mark("call", event["id"])]
        elif event.get("observation"):
            code = (event["extras"].get("metadata") or {}).get("exit_code")
            failed = True if event["observation"] == "error" else None if code is None else code != 0
            marks.append(Mark("result", event.get("cause", "nothing"), error=failed))
    return [Log(marks)]


def openhands_sdk(path: Path) -> list[Log]:
    """V1 events: actions of one response share its id; usage is given for the conversation only."""
    marks = []
    for event in lines(path):
        if event["kind"] == "MessageEvent":
            marks.append(Mark("user" if event["source"] == "user" else "step"))
        elif event["kind"] == "ActionEvent":
            marks += [Mark("step", event["llm_response_id"]), Mark("call", event["tool_call_id"])]
        elif event["kind"] == "ObservationEvent":
            seen = event["observation"]
            failed = bool(seen["is_error"] or seen.get("exit_code"))
            marks.append(Mark("result", event["tool_call_id"], error=failed))
    return [Log(marks)]


def pi(path: Path) -> list[Log]:
    """Messages among lines; an empty response without usage that was aborted is no step."""
    marks = []
    for message in [line["message"] for line in lines(path) if line["type"] == "message"]:
        usage = message.get("usage")
        sent = usage and usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
        if message["role"] == "user":
            marks.append(Mark("user"))
        elif message["role"] == "toolResult":
            marks.append(Mark("result", message["toolCallId"], error=message["isError"]))
        elif message["role"] == "assistant" and (message["content"] or message.get("stopReason") != "aborted" or sent):
            marks.append(Mark("step", None, usage and (sent, usage["output"])))
            marks += [Mark("call", part["id"]) for part in message["content"] if part["type"] == "toolCall"]
    return [Log(marks)]


def cline(path: Path) -> list[Log]:
    """Anthropic blocks; `inputTokens` includes what was read from the cache."""
    marks = []
    for message in load(path)["messages"]:
        parts, used = blocks(message["content"]), message.get("metrics")
        if message["role"] == "assistant":
            marks.append(Mark("step", message["id"], used and (used["inputTokens"], used["outputTokens"])))
            marks += [Mark("call", part["id"]) for part in parts if part["type"] == "tool_use"]
            continue
        results = [part for part in parts if part["type"] == "tool_result"]
        marks += [Mark("result", part["tool_use_id"], error=bool(part.get("is_error"))) for part in results]
        if not results:
            marks.append(Mark("user"))
    return [Log(marks)]


def atif(path: Path) -> list[Log]:
    """A step of the source's is a response if an agent made it: it says so, or it has a model call or calls."""
    marks = []
    for step in load(path)["steps"]:
        if step["source"] == "user":
            marks.append(Mark("user"))
        elif step["source"] == "agent" or step.get("llm_call_count") or step.get("tool_calls"):
            used = step.get("metrics")
            marks.append(Mark("step", None, used and (used["prompt_tokens"], used["completion_tokens"])))
            marks += [Mark("call", call["tool_call_id"]) for call in step.get("tool_calls") or ()]
            results = (step.get("observation") or {}).get("results") or ()
            marks += [Mark("result", result["source_call_id"]) for result in results]
    return [Log(marks)]


FORMATS: Final[dict[str, Callable[[Path], list[Log]]]] = {
    function.__name__: function
    for function in (
        atif,
        claude_code,
        cline,
        codex,
        gemini,
        inspect,
        mini_swe_agent,
        openai_chat,
        opencode,
        openhands,
        openhands_sdk,
        pi,
        swe_agent,
        tau_bench,
    )
}


def derive(row: Expected, data: Path = DATA) -> Expected:
    """Count one file; a row that must be refused has nothing to count."""
    if row.format is None:
        return row
    return Expected(row.path, row.format, *total(FORMATS[row.format](data / row.path)), row.note)


def main() -> None:
    """Print the table, and where it differs from what was written down."""
    if not DATA.is_dir():
        sys.stdout.write(f"The sample trajectories are not there: {DATA} is missing.\n")
        return
    hands = 0
    for row in EXPECTED:
        found = derive(row)
        sys.stdout.write(f"{row.path}\n    {row.format or row.note}")
        if row.format:
            numbers = zip(row._fields[2:-1], found[2:-1], strict=True)
            sys.stdout.write("".join(f" {name}={value}" for name, value in numbers))
        by_hand = [
            f"{name}={mine}" for name, mine, counted in zip(row._fields, row, found, strict=True) if mine != counted
        ]
        hands += len(by_hand)
        sys.stdout.write(f"\n    set by hand: {', '.join(by_hand)}\n" if by_hand else "\n")
    sys.stdout.write(f"{len(EXPECTED)} files, {hands} numbers set by hand\n")
    missing = {str(file.relative_to(DATA)) for file in DATA.rglob("*") if file.is_file()} - {r.path for r in EXPECTED}
    sys.stdout.write("".join(f"not in the table: {path}\n" for path in sorted(missing)))


if __name__ == "__main__":
    main()
