"""Values of the command line, with an error for what is not accepted, and options that commands share."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from boolab.cli.help import Options
from boolab.core.types import IDENTITIES
from boolab.errors import SettingError
from boolab.io.files import output_file, user_path
from boolab.limits.table import AGENT_LIMITS, LIMITS, OBJECTIVES, Limit

if TYPE_CHECKING:
    from boolab.report.question import Question
    from boolab.report.study import Study

MAX_VALUES: Final = 10_000  # of an axis

LOGS: Final = (
    "files, folders (with all in them) or globs in quotes; atlas, or one of its sets such as atlas/swebench-verified, "
    "are runs that come with boolab, unless there is a path of that name"
)
FORMAT: Final = (
    "the logs' format, such as claude_code or swe_agent; any other word lists them all (default: detected in each file)"
)
HARNESS: Final = "such as boocode, claude_code or opencode_v2; any other word lists them all"
NEWEST: Final = "at most this many logs, the newest first (default: all)"

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_RANGE: Final = re.compile(r"(\d+):(\d+)(?::(\d+))?")
_OFF_WORDS: Final = ("none", "off")

_Result = TypeVar("_Result")


# --- Values -----------------------------------------------------------------------------------------------------------


def values_of(text: str, number: Callable[[str], float] = int, minimum: int = 1) -> list[Any]:
    """The values of an axis: `20`, `1:200`, `1:200:5` (its end included), `2,3,5`, `5,10,none`; None is off."""
    values: dict[Any, None] = {}
    for part in text.split(","):
        for value in _part(part.strip().lower(), number):
            values[value] = None
            if len(values) > MAX_VALUES:
                raise argparse.ArgumentTypeError(f"{text!r} has more than {MAX_VALUES:,} values")
    numbers = [value for value in values if value is not None]
    if any(value < minimum if number is int else value <= 0 for value in numbers):
        kind = f"whole numbers, {minimum} or more," if number is int else "numbers above 0"
        forms = "ranges such as 20 or 1:200 or 1:200:5 or 2,3,5, and none for off"
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted; expected {kind} and {forms}")
    return [*numbers, *([None] if None in values else [])]


def _part(part: str, number: Callable[[str], float]) -> Iterable[Any]:
    if part in _OFF_WORDS:
        return [None]
    match = _RANGE.fullmatch(part)
    if match is not None:
        first, last, stride = int(match[1]), int(match[2]), int(match[3] or 1)
        if stride and first <= last:
            return range(first, last + 1, stride)
        reason = "its step is 0" if not stride else "it ends before it begins"
        raise argparse.ArgumentTypeError(f"{part!r} is not a range: {reason}")
    try:
        value = number(part)
    except ValueError:
        value = -1
    return [value if 0 <= value < float("inf") else -1]  # -1 is never accepted


def since_of(text: str, now: datetime | None = None) -> datetime:
    """The time that a text means: `30d`, `12h`, `2w`, `45m` ago, or a date (`2026-11-01`, local time)."""
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip().lower())
    try:
        if ago is not None:
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        moment = datetime.fromisoformat(text.strip())
        return moment if moment.tzinfo is not None else moment.astimezone()
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is not a time; accepted: 30d, 12h, 2w, 45m, or a date such as 2026-11-01"
        raise argparse.ArgumentTypeError(msg) from error


def parse_positive(text: str) -> int:
    """A whole number, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, 1 or more")
    return int(text)


def parse_sources(text: str) -> tuple[str, ...]:
    """The names of sources of evidence."""
    sources = tuple(part.strip() for part in text.split(",") if part.strip())
    if not sources or not all(re.fullmatch(r"[a-z_]{1,50}", source) for source in sources):
        raise argparse.ArgumentTypeError(f"{text!r}: expected sources of evidence, such as tests or git,tests")
    return sources


def parse_whole(text: str) -> int:
    """A whole number."""
    if not text.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, such as 7")
    return int(text)


def limit_from(minimum: int) -> Callable[[str], int | str]:
    """A parser for a limit of a run: a whole number from `minimum` on, or none."""

    def read(text: str) -> int | str:
        if text == "none" or (text.isdecimal() and int(text) >= minimum):
            return text if text == "none" else int(text)
        raise argparse.ArgumentTypeError(f"{text!r}: expected {minimum} or more, or none")

    return read


def amount(text: str) -> float:
    """A finite number, 0 or more."""
    value = _float(text)
    if value is None or value < 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number, 0 or more")
    return value


def share(text: str) -> float:
    """A number between 0 and 1."""
    value = _float(text)
    if value is None or not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; accepted: a number between 0 and 1, such as 0.95")
    return value


def _float(text: str) -> float | None:
    """A finite number; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def parameter(text: str) -> tuple[str, Any]:
    """A parameter of a request, NAME=JSON."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=JSON, such as top_p=0.9")
    try:
        return name, json.loads(value)
    except ValueError as error:
        msg = f"{text!r}: {error}; a text needs quotes within quotes, such as '{name}=\"{value}\"'"
        raise argparse.ArgumentTypeError(msg) from error


def table_file(text: str) -> str:
    """The name of a .csv or .parquet file."""
    if Path(text).suffix not in (".csv", ".parquet"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a name that ends with .csv or .parquet")
    return text


def place_to_write(text: str, *suffixes: str) -> Path:
    """The path of a file that a command writes at its end, or that a link there leads to, checked before it begins."""
    path = user_path(text)
    if suffixes and path.suffix.lower() not in suffixes:
        raise SettingError(f"{text}: expected a name that ends with {' or '.join(suffixes)}")
    if path.is_dir():
        raise SettingError(f"{text}: it is a folder; expected the name of a file")
    if not path.parent.is_dir():
        raise SettingError(f"{text}: there is no folder {path.parent}")
    return write_checked(path, lambda: output_file(path))


def page_to_write(text: str, *suffixes: str) -> Path:
    """The same for what is no log; a `SettingError` if the file is a log."""
    from boolab.logs.log_files import reader_for
    from boolab.logs.save import is_saved

    path = place_to_write(text, *suffixes)
    reader = write_checked(path, lambda: reader_for(path)) if path.exists() else None
    if reader is not None and not (reader.NAME == "parquet" and not is_saved(path)):  # which is another table
        raise SettingError(f"{text}: it is a log ({reader.NAME}), which would be lost: name another file to write")
    return path


def write_checked(path: Path, write: Callable[[], _Result]) -> _Result:
    """Write a file."""
    try:
        return write()
    except (OSError, ImportError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SettingError(f"{path}: {reason}") from error


def agrees(question: str) -> bool:
    """Ask on the terminal, and return whether the user agrees."""
    sys.stdout.flush()
    if not sys.stdin.isatty():
        msg = "there is no terminal for the question: --yes answers it with yes"
        raise SettingError(msg)
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


# --- Which logs, and what is evaluated on them ------------------------------------------------------------------------


def add_window(parser: Options, limit: str) -> None:
    """Add --since, and --limit with its help."""
    add_since(parser)
    parser.add_argument("--limit", metavar="N", type=parse_positive, help=limit)


def add_since(parser: Options) -> None:
    """Add --since, whose value is the text with its time."""
    parser.add_argument(
        "--since",
        metavar="WHEN",
        type=lambda text: (text, since_of(text)),
        help="only files changed since then: 45m, 12h, 30d or 2w ago, or since a date such as 2026-11-01, local time "
        "(default: all files)",
    )


def since_time(args: argparse.Namespace) -> datetime | None:
    """The time of --since."""
    return args.since[1] if args.since else None


def add_logs(parser: argparse.ArgumentParser, optional: str = "") -> None:
    """Add the logs, and which of them are read; `optional` is what holds without any."""
    logs_help = f"{LOGS} (default: none, and {optional})" if optional else LOGS
    parser.add_argument("logs", metavar="LOGS", nargs="*" if optional else "+", help=logs_help)
    group = parser.add_argument_group("which logs")
    group.add_argument("--format", metavar="NAME", help=FORMAT)
    add_window(group, NEWEST)
    add_labels(group, "logs")
    add_success_threshold(group)


def add_labels(group: Options, home: str) -> None:
    """Add --labels; without it, the labels are those in `home`."""
    group.add_argument(
        "--labels",
        metavar="FILE",
        help="which runs were successes: a .jsonl as boolab label writes it, a .csv with the columns run_id (or task) "
        f"and success, or a .json with a mapping or rows (default: the labels in the {home}, and in "
        "boolab-labels.jsonl beside them)",
    )
    add_trust(group)


def add_trust(group: Options) -> None:
    """Add --trust."""
    group.add_argument(
        "--trust",
        metavar="SOURCES",
        type=parse_sources,
        default=(),
        help="sources of evidence in files of labels that count as labels, such as tests or git,tests (default: none)",
    )


def add_evidence(group: Options) -> None:
    """Add --evidence, and --git."""
    group.add_argument(
        "--evidence",
        metavar="SOURCES",
        type=parse_sources,
        default=(),
        help="look for evidence of the outcomes, which is no label: in the tests that the agent ran (tests), the "
        "repository (git) or the user's next message (reaction), such as git,tests (default: none)",
    )
    group.add_argument(
        "--git",
        metavar="PATH",
        help="the repository in which evidence of git is looked for (default: that of the folder that each run worked "
        "in)",
    )


def add_server(group: Options) -> None:
    """Add --base-url, --protocol and --key-env: where a model answers."""
    group.add_argument(
        "--base-url", metavar="URL", help="the server, such as http://127.0.0.1:8080/v1 (default: the provider's own)"
    )
    group.add_argument(
        "--protocol",
        choices=("openai", "anthropic"),
        help="the server's protocol (default: anthropic for names that begin with claude and for api.anthropic.com, "
        "else openai)",
    )
    group.add_argument(
        "--key-env",
        metavar="NAME",
        help="the environment variable that holds the key (default: the provider's own)",
    )


def add_success_threshold(group: Options) -> None:
    """Add --success-threshold."""
    group.add_argument(
        "--success-threshold",
        metavar="REWARD",
        type=_reward,
        help="from which reward on a Harbor trial is a success, such as 0.5 (default: 1 is a success, 0 is none, and a "
        "reward between is no label)",
    )


def _reward(text: str) -> float:
    """A finite number."""
    value = _float(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no reward; accepted: a number, such as 0.5")
    return value


def add_scope(group: Options) -> None:
    """Add --scope."""
    group.add_argument(
        "--scope",
        choices=("auto", "turn", "run"),
        default="auto",
        help="turn: counters start at zero with each user message; run: they continue through the session; auto: as "
        "the harness of each log counts (default: %(default)s)",
    )


def add_exempt(group: Options) -> None:
    """Add --exempt, which may be repeated."""
    group.add_argument(
        "--exempt",
        metavar="TOOL",
        action="append",
        default=[],
        help="a tool whose repeats are no loop, such as one that polls; may be repeated (default: none)",
    )


def add_prices(group: Options) -> None:
    """Add --no-prices."""
    group.add_argument(
        "--no-prices",
        dest="prices",
        action="store_false",
        help="leave costs unknown where a log lacks them (default: those of Claude Code and Codex are computed from "
        "tokens at list prices, if boolab[prices] is installed)",
    )


def add_question(parser: argparse.ArgumentParser) -> None:
    """Add what is evaluated, how it is counted, and what is recommended."""
    settings = parser.add_argument_group("settings to evaluate")
    for name, axis in LIMITS.items():
        usual = "those that matter" if name in AGENT_LIMITS else "not evaluated"
        minimum = f", {axis.min_useful} or more" if axis.min_useful > 1 else ""
        unit = f" in {axis.unit}, such as 0.5" if axis.fractions else ""
        description = f"{axis.label}s{unit}{minimum}: stop {axis.meaning}"
        settings.add_argument(
            option_of(name), metavar="VALUES", type=_axis_values(axis), help=f"{description} (default: {usual})"
        )
    group = parser.add_argument_group("how to count")
    add_scope(group)
    group.add_argument(
        "--policy",
        metavar="NAME",
        help="the harness whose limits are evaluated, with its order of precedence, its identity and its other "
        f"limits, {HARNESS} (default: none)",
    )
    group.add_argument(
        "--identity",
        choices=IDENTITIES,
        help="what is compared to find equal calls: the tool with its arguments as text (raw), with keys in order "
        "(ordered), in any order (canonical), with the result too (call+result), or the tool alone (default: "
        "canonical, or the policy's)",
    )
    add_exempt(group)
    group.add_argument(
        "--by",
        metavar="COLUMN",
        action="append",
        default=[],
        help="a column of runs_df by which runs are separated, such as agent or model; may be repeated; all takes all "
        "runs together (default: the agent and the data set, and the model, effort or version if lengths differ by it)",
    )
    add_prices(group)
    advice = parser.add_argument_group("what to recommend")
    advice.add_argument(
        "--keep",
        metavar="SHARE",
        type=share,
        default=0.95,
        help="the share of successes to keep, between 0 and 1 (default: %(default)s)",
    )
    advice.add_argument(
        "--confidence",
        metavar="SHARE",
        type=share,
        default=0.95,
        help="the confidence that it is kept, between 0 and 1 (default: %(default)s)",
    )
    advice.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default="cost",
        help="what to save: dollars, tokens, tool calls or steps (default: %(default)s, or else what the source "
        "records)",
    )
    advice.add_argument(
        "--success",
        choices=("label", "ended"),
        help="what a success is: a label, or that the turn ended by itself (default: labels in groups that have any)",
    )
    advice.add_argument(
        "--unlabelled",
        choices=("bounds", "proxy"),
        default="bounds",
        help="what runs without a label are in groups that have some: bounds: each that a limit stops counts as a lost "
        "success; proxy: all runs of such a group count by whether they ended by themselves (default: %(default)s)",
    )


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Add the question about a budget."""
    group = parser.add_argument_group("what to recommend for a budget")
    group.add_argument(
        "--budget",
        metavar="DOLLARS",
        type=amount,
        help="the loosest limit under which a turn or a run costs no more than this: the step cap, or the one limit "
        "with values above (default: successes to keep are asked for, not a budget)",
    )
    group.add_argument(
        "--share",
        metavar="SHARE",
        type=share,
        default=0.95,
        help="the share of turns or runs that are to stay within the budget, between 0 and 1 (default: %(default)s)",
    )


def option_of(axis: str) -> str:
    """The option for the values of an axis, such as `--tool-budget`."""
    return f"--{axis.replace('_', '-')}"


def _axis_values(axis: Limit) -> Callable[[str], list[Any]]:
    """How the values of an axis are read."""
    return lambda text: values_of(text, float if axis.fractions else int, axis.min_useful)


def study_from(args: argparse.Namespace) -> Study:
    """The study that the options of `add_logs` and `add_question` describe."""
    from boolab.report.study import study_of

    return study_of(
        args.logs,
        _question(args),
        format=args.format,
        since=since_time(args),
        limit=args.limit,
        progress=sys.stderr.isatty(),
    )


def _question(args: argparse.Namespace) -> Question:
    from boolab.harnesses.presets import identity_under
    from boolab.report.question import Question

    grid = {axis: values for axis in LIMITS if (values := getattr(args, axis)) is not None}
    identity: Any = identity_under(args.policy, args.identity, args.exempt or ())
    return Question(
        grid=grid or None,
        scope=args.scope,
        identity=identity,
        policy=args.policy,
        by=() if args.by == ["all"] else tuple(args.by) or None,
        keep=args.keep,
        confidence=args.confidence,
        objective=args.objective,
        success=args.success,
        unlabelled=args.unlabelled,
        labels=args.labels,
        trust=args.trust,
        success_threshold=args.success_threshold,
        evidence=getattr(args, "evidence", ()),
        git=getattr(args, "git", None),
        prices=args.prices,
        budget=getattr(args, "budget", None),
        share=getattr(args, "share", 0.95),
    )
