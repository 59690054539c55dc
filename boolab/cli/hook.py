"""The command `boolab hook`: a stop rule in the hooks of Claude Code. The hook itself is `boolab.live.hooks.entry`."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from boolab.cli.arguments import agrees, parse_positive
from boolab.cli.help import Command
from boolab.core.text import count, flatten, replace_controls, shorten
from boolab.display.text import align_columns
from boolab.errors import ConfigFileError, SettingError

if TYPE_CHECKING:
    from boolab.io.file_edit import UserFile
    from boolab.live.hooks.options import Options
    from boolab.live.hooks.settings import Place

EPILOG: Final = """
    Claude Code starts the command without --install, --remove and --log at its
    events. A step is a response with the calls that were executed; the limits hold
    for each agent and each message of the user. When one is reached, the model gets
    one sentence and one more response; further calls are denied, and then it ends.

    examples:
      boolab hook claude-code --install --max-steps 56 --doom-loop 5 --shadow
      boolab hook claude-code --log
      boolab hook claude-code --install --max-steps 56 --doom-loop 5
      boolab hook claude-code --remove

    docs/howto/guard_claude_code.md begins with --shadow and ends with the limits on.
    """
_SPENDING: Final = (
    "Claude Code gives its hooks no tokens and no costs, so a hook cannot hold this limit; expected a limit on steps, "
    "calls or time here, and 'claude -p --max-budget-usd' for what is spent"
)
_NOT_FOUND: Final = (
    "the settings of a project are for all machines that work on it, so its hook is the command boolab, and that is "
    "not on the PATH here: install boolab so that the shell finds it, or take --local, whose hook names this Python"
)
_SHARED: Final = (
    "all who work on the project share these settings, so each needs boolab on the PATH: without it Claude Code "
    "reports an error at each event, and no limit holds; --local is for you alone"
)
MAX_SHOWN: Final = 200
_VERSION_TIMEOUT_S: Final = 20


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("harness", choices=["claude-code"], metavar="HARNESS", help="the harness: claude-code")
    command_options = parser.add_argument_group("what to do").add_mutually_exclusive_group()
    command_options.add_argument(
        "--install", action="store_true", help="show the change of the settings, ask, and write it"
    )
    command_options.add_argument(
        "--remove", action="store_true", help="take the hook out of the settings, in the same way"
    )
    command_options.add_argument(
        "--log", action="store_true", help=f"print what it did or would have done: the newest {MAX_SHOWN}"
    )
    file_options = parser.add_argument_group("which settings").add_mutually_exclusive_group()
    file_options.add_argument(
        "--user", dest="place", action="store_const", const="user", help="those of the user (this is the default)"
    )
    file_options.add_argument(
        "--project",
        dest="place",
        action="store_const",
        const="project",
        help="those of the project, .claude/settings.json, for all who share it: each needs boolab on the PATH",
    )
    file_options.add_argument(
        "--local",
        dest="place",
        action="store_const",
        const="local",
        help="those of the project for you alone, .claude/settings.local.json",
    )
    file_options.add_argument("--settings", metavar="PATH", help="another file (default: that of the user)")
    parser.add_argument("--yes", action="store_true", help="write without asking")
    limits = parser.add_argument_group("limits")
    for option, text in (
        ("--max-steps", "stop after so many steps"),
        ("--tool-budget", "stop once so many calls were executed"),
        ("--doom-loop", "stop when so many calls in a row are the same"),
        ("--error-streak", "stop when so many calls in a row have failed"),
    ):
        limits.add_argument(option, type=parse_positive, metavar="N", help=f"{text} (default: off)")
    limits.add_argument(
        "--max-time", type=_seconds, metavar="SECONDS", help="stop at the first step after this time (default: off)"
    )
    limits.add_argument(
        "--identity",
        choices=["canonical", "ordered", "call+result", "tool"],
        default="canonical",
        metavar="NAME",
        help="what makes two calls the same, for --doom-loop: canonical, ordered, call+result or tool (default: "
        "%(default)s)",
    )
    limits.add_argument(
        "--exempt",
        action="append",
        default=[],
        metavar="TOOL",
        help="a tool whose repeats are no loop; may be repeated (default: none)",
    )
    limits.add_argument(
        "--scope",
        choices=["turn", "run"],
        default="turn",
        metavar="SCOPE",
        help="turn: count anew at each message of the user; run: never (default: %(default)s)",
    )
    for option in ("--max-tokens", "--max-cost"):
        limits.add_argument(option, type=_refuse_option, metavar="N", help="no hook can hold it (default: off)")
    action = parser.add_argument_group("what happens at a limit").add_mutually_exclusive_group()
    action.add_argument("--shadow", dest="action", action="store_const", const="shadow", help="only log it")
    action.add_argument(
        "--nudge", dest="action", action="store_const", const="nudge", help="send the model one sentence, deny nothing"
    )
    parser.set_defaults(action="stop", place="user")


def run(args: argparse.Namespace) -> int:
    """Install the hook, remove it, or print its log."""
    if args.log:
        return _log()
    if not args.install and not args.remove:
        args.parser.error("expected --install, --remove or --log; Claude Code itself starts it without them")
    from boolab.io.file_edit import read_user_file
    from boolab.io.files import user_path
    from boolab.live.hooks.settings import command_of, original_of, settings_path, with_hook, without_hook

    path = user_path(args.settings) if args.settings else settings_path(cast("Place", args.place))
    file = read_user_file(path, user_path("~") if args.place == "user" and not args.settings else None)
    old = file.text() or ""
    options = None if args.remove else _options(args)
    shared = args.place == "project" and not args.settings
    if shared and options is not None and shutil.which("boolab") is None:
        raise SettingError(_NOT_FOUND)
    try:
        if options is None:
            original = original_of(file)
            new = without_hook(old) if original is None else original.decode("utf-8")
            _point_out_others(new, path)
            if new == old:
                print(f"boolab: no hook of boolab is in {replace_controls(str(path))}", file=sys.stderr)
                return 0
        else:
            command = command_of(options, shared=shared)
            _check_version()
            new = with_hook(old, command)
            _point_out_others(new, path)
    except ConfigFileError as error:
        raise ConfigFileError(error.message, path=path, line=error.line) from error
    code = _delete(file, yes=args.yes) if _is_ours_alone(file, new) else _write(file, new, args)
    if shared and code == 0 and options is not None:
        print(f"boolab: {_SHARED}", file=sys.stderr)
    if options is not None and "disableAllHooks" in new:
        print(
            f"boolab: {replace_controls(str(path))} has disableAllHooks: no hook runs while it is true", file=sys.stderr
        )
    return code


def _point_out_others(text: str, path: Path) -> None:
    """Name the commands that contain the hook and are not it."""
    from boolab.live.hooks.settings import mentions_in

    for event, command in mentions_in(text):
        msg = f"{path}: {event} has a command that is not the hook alone, so it stays as it is"
        print(f"boolab: {replace_controls(msg)}: {shorten(flatten(command), MAX_SHOWN)}", file=sys.stderr)


def _is_ours_alone(file: UserFile, new: str) -> bool:
    """Whether a file is to be deleted: the installation made it, and it holds nothing but the hook."""
    from boolab.live.hooks.settings import is_made

    return new.strip() == "{}" and not file.is_link and is_made(file)


def _options(args: argparse.Namespace) -> Options:
    from boolab.live.hooks.counts import monitor_for
    from boolab.live.hooks.options import NUMBERS, Options

    limits = {name: getattr(args, name) for name in NUMBERS if getattr(args, name) is not None}
    options = Options(limits, args.action, args.identity, tuple(args.exempt), args.scope)
    monitor_for(options)  # an error now, in place of one in the log at each call
    return options


def _write(file: UserFile, new: str, args: argparse.Namespace) -> int:
    """Show a change of the settings, and write it if the user agrees."""
    from boolab.harnesses.exports.write import PlannedFile, format_diff
    from boolab.io.file_edit import edit_file
    from boolab.live.hooks.settings import commands_in, forget, note_installed, original_of, without_hook

    name = replace_controls(file.title)
    if file.text() == new:
        print(f"boolab: {name} has it already", file=sys.stderr)
        return 0
    diff = format_diff([PlannedFile(file, new)])
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    print(f"Changes {name}: {count(added, 'line')} added, {removed:,} removed.\n\n{diff}")
    if not (args.yes or agrees(f"Write {replace_controls(str(file.target))}?" if file.is_link else "Write it?")):
        print("boolab: nothing was written", file=sys.stderr)
        return 1
    edit_file(file, new.encode("utf-8"))
    if args.remove:
        forget(file)
    else:
        original = original_of(file)
        if original is None and file.data is not None and not commands_in(file.text() or ""):
            original = None if without_hook(new).encode("utf-8") == file.data else file.data
        note_installed(file, new.encode("utf-8"), original)
    print(f"boolab: wrote {name}", file=sys.stderr)
    return 0


def _delete(file: UserFile, *, yes: bool) -> int:
    """Delete settings that hold the hook alone, if the user agrees."""
    from boolab.io.file_edit import edit_file
    from boolab.live.hooks.settings import forget

    name = replace_controls(str(file.path))
    if not (yes or agrees(f"Remove {name}, which holds nothing but this hook?")):
        print("boolab: nothing was removed", file=sys.stderr)
        return 1
    edit_file(file, None)
    forget(file)
    print(f"boolab: removed {name}, which held nothing but this hook", file=sys.stderr)
    return 0


def _check_version() -> None:
    """Refuse a Claude Code that lacks an event: some of those reject all settings for one that they do not know."""
    from boolab.live.hooks.claude_code import FIRST_VERSION

    program = shutil.which("claude")
    if program is None:
        return
    try:
        process = subprocess.run(  # noqa: S603 - the program that the hook is for
            [program, "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", process.stdout)
    if match is not None and tuple(map(int, match.groups())) < FIRST_VERSION:
        required_version = ".".join(map(str, FIRST_VERSION))
        raise SettingError(
            f"Claude Code {match[0]} lacks the event PostToolBatch: expected {required_version} or later"
        )


_DID: Final = {
    "stop": "asked it to stop",
    "deny": "denied a call",
    "end": "ended it",
    "nudge": "nudged it",
    "would stop": "would have stopped it",
    "finished": "it finished",
    "failed": "the hook failed",
}


def _log() -> int:
    from boolab.live.hooks.journal import log_path, records

    path = Path(log_path())
    lines = records(path.read_bytes())[-MAX_SHOWN:] if path.exists() else []
    if not lines:
        print(f"boolab: the log is empty: {replace_controls(str(path))}", file=sys.stderr)
        return 0
    print("\n".join(align_columns([_cells(line) for line in lines], left=range(4))))
    ended = [line for line in lines if line.get("did") == "finished"]
    limited = [line for line in lines if line.get("did") in ("stop", "nudge", "would stop")]
    print(f"boolab: {count(len(ended), 'turn')} finished, {count(len(limited), 'limit')} reached", file=sys.stderr)
    return 0


def _cells(line: dict[str, Any]) -> list[str]:
    time = str(line.get("at", "")).replace("T", " ").removesuffix("Z")
    did = str(line.get("did", ""))
    details = f"after step {line['step']} by {line['rule']}" if "rule" in line and "step" in line else ""
    if did == "finished":
        details = f"after {_format_count(line, 'steps', 'step')} and {_format_count(line, 'tool_calls', 'call')}"
    elif did == "failed":
        details = str(line.get("error", ""))
    agent = f"{str(line.get('session') or '')[:8]} {line.get('agent') or ''}".strip()
    return [flatten(cell) for cell in (time, agent, _DID.get(did, did), details)]


def _format_count(line: dict[str, Any], key: str, noun: str) -> str:
    value = line.get(key)
    return count(value, noun) if isinstance(value, int) else f"? {noun}s"


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds, more than 0")
    return value


def _refuse_option(text: str) -> Literal[0]:
    raise argparse.ArgumentTypeError(f"{text!r}: {_SPENDING}")


COMMAND: Final = Command(
    run,
    add,
    "Limits that were chosen on recorded runs then hold in Claude Code: the same rule, at the same step.",
    EPILOG,
    "claude-code",
    {1: "an error, on stderr; or the answer was no"},
)
