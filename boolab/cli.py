"""The command `boolab`: one function for each subcommand, each of which returns the exit code.

Exit codes: 0 for success, 1 for an error that boolab explains in one line, 2 for a command line that it does not
understand, 3 for a run that something stopped before it was done, 130 for an interrupt from the keyboard.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from boolab.errors import BoolabError, ReadWarning, SettingError
from boolab.help_text import HelpFormatter, filled, pages_of, refusal
from boolab.notebooks import notebooks_to_work_in
from boolab.report.options import since_of, values_of
from boolab.transcript import printable

if TYPE_CHECKING:
    from boolab.report.study import Question, Study

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name
Command: TypeAlias = Callable[[argparse.Namespace], int]
_Result = TypeVar("_Result")

AXES: Final = {
    "steps": ("steps", "step caps: stop after so many answers of the model"),
    "budget": ("tool_budget", "tool budgets: stop once so many tools were called"),
    "doom": ("doom_loop", "doom-loop thresholds, 2 or more: stop when the same call comes so many times in a row"),
    "errors": ("error_streak", "error streaks: stop when so many calls in a row failed"),
    "tokens": ("max_tokens", "token budgets: stop once so many tokens were used, input and output together"),
    "cost": ("max_cost", "cost budgets in dollars, such as 0.5: stop once so much was spent"),
    "seconds": ("max_time", "time budgets in seconds: stop at the first step after so long"),
}
"""The options for settings, and the axes of a grid that they stand for."""

_LOGS: Final = "files, folders (with all in them) or globs in quotes"
_FORMAT: Final = (
    "the logs' format, such as claude_code or swe_agent; any other word lists them all (default: detected in each file)"
)
_HARNESS: Final = "such as boocode, claude_code or opencode_v2; any other word lists them all"
_NEWEST: Final = "at most so many logs, the newest first (default: all)"
_EXAMINED: Final = ("steps", "budget", "doom")
"""The settings that are looked at where none is named."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments; those of the process by default.

    Returns:
        The exit code.

    Raises:
        SystemExit: after `--help` and `--version`, and with code 2 for arguments that are not understood.
    """
    _open_what_is_closed()
    parser = _parser()
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        args.parser.error(refusal(args.parser, unknown))
    if args.run is None:
        parser.print_help(sys.stderr)
        return 2
    return _exit_code(args.run, args)


def help_pages() -> dict[str, str]:
    """The help of the command and of each subcommand, by what is typed before `--help`.

    Returns:
        The texts as they are printed, the command's own first.

    Example:
        >>> list(help_pages())[:2]
        ['boolab', 'boolab doctor']
    """
    return dict(pages_of(_parser()))


def _open_what_is_closed() -> None:
    """Tell nobody what would go to a stream that whoever started the command has closed, as some daemons do."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end


def _exit_code(command: Command, args: argparse.Namespace) -> int:
    """Run a subcommand; what went wrong is one line on stderr."""
    try:
        code = command(args)
        sys.stdout.flush()
    except BoolabError as error:
        print(f"boolab: {printable(' '.join(str(error).split()))}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output has left; Python would complain about that once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("boolab: interrupted", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="boolab",
        usage="%(prog)s [options] COMMAND ...",
        formatter_class=HelpFormatter,
        description=filled("Step caps, tool budgets and doom-loop thresholds for LLM agents, compared."),
        epilog=filled(
            """
            Each command says more, with examples: 'boolab COMMAND --help'.

            examples:
              boolab doctor                    begin here: it finds your agents' logs
              boolab whatif ~/.claude/projects
              boolab demo --quick

            exit codes:
              0    success
              1    an error, in one line on stderr; or nothing was done
              2    wrong usage: an option or a value that is not known
              3    a limit stopped the run, or it waits for an answer (boolab run)
              130  interrupted by Ctrl-C
              129  its terminal was closed (boolab run)
              143  it was killed (boolab run)
            """
        ),
    )
    parser.add_argument("--version", action="version", version=f"boolab {version('boolab')}", help="say which version "
                        "this is, and exit")  # fmt: skip
    parser.set_defaults(run=None, parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog=parser.prog)
    for add in (_add_doctor, _add_import, _add_whatif, _add_report, _add_run, _add_store, _add_demo, _add_lab):
        add(commands)
    return parser


def _command(
    commands: Commands, name: str, run: Command, summary: str, text: str, more: str, arguments: str = ""
) -> argparse.ArgumentParser:
    """A subcommand; its summary stands in the list of commands, and opens its own help. `more` ends it."""
    parser = commands.add_parser(
        name,
        help=summary,
        usage=f"%(prog)s [options] {arguments}".rstrip(),
        description=filled(f"{summary[0].upper()}{summary[1:]}. {text}"),
        epilog=filled(more),
        formatter_class=HelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


# --- Questions about logs ---------------------------------------------------------------------------------------------


def _add_doctor(commands: Commands) -> None:
    parser = _command(
        commands,
        "doctor",
        _doctor,
        "find the agent logs on this machine, and say which of them boolab reads",
        "Counts the files in the places where agents keep their logs, and opens none of them. Ends with the command to "
        "run next.",
        """
        examples:
          boolab doctor
          boolab doctor --since 30d
          boolab doctor --json | jq '.logs[] | select(.readable and .files > 0)'
        """,
        "",
    )
    _add_window(parser, "the N of --limit in the command to run next (default: none there)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text: schema, boolab, "
                        "logs, next")  # fmt: skip


def _doctor(args: argparse.Namespace) -> int:
    from boolab.places import found_logs  # noqa: PLC0415 - slow to import
    from boolab.report import machine  # noqa: PLC0415

    found = found_logs(since=args.since[1] if args.since else None)
    tell = machine.as_json if args.json else machine.text
    print(tell(found, since=args.since[0] if args.since else None, limit=args.limit))
    return 0


def _add_import(commands: Commands) -> None:
    parser = _command(
        commands,
        "import",
        _import,
        "read logs of any formats into one file, and say what was read, what was skipped and why",
        "The formats are detected from the files' content. The other commands and load_runs read the file like any "
        "log, but faster: .parquet (one row a step; needs pyarrow) is small and quick, .jsonl is ATIF, which other "
        "tools read too.",
        """
        examples:
          boolab import ~/.claude/projects -o runs.parquet
          boolab import 'logs/**/*.eval' --since 30d -o runs.jsonl
          boolab import logs/ -o runs.parquet --json | jq '.files[] | select(.skipped)'
        """,
        "LOGS [LOGS ...] -o FILE",
    )
    parser.add_argument("logs", metavar="LOGS", nargs="+", help=_LOGS)
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help="the file to write, .parquet or .jsonl "
                        "(required); one that is there is replaced")  # fmt: skip
    parser.add_argument("--format", metavar="NAME", help=_FORMAT)
    _add_window(parser, _NEWEST)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text, with a "
                        "row for each file")  # fmt: skip


def _import(args: argparse.Namespace) -> int:
    from boolab.reading import each_log  # noqa: PLC0415 - slow to import
    from boolab.report import imported  # noqa: PLC0415

    out = Path(args.out).expanduser()
    since = args.since[1] if args.since else None
    logs = each_log(args.logs, format=args.format, since=since, limit=args.limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)  # the account of the files says it all
        account = _written(out, lambda: imported.import_logs(logs, out))
    print((imported.as_json if args.json else imported.text)(account, out))
    return 0 if account.written else 1


def _add_whatif(commands: Commands) -> None:
    parser = _command(
        commands,
        "whatif",
        _whatif,
        "say what step caps, tool budgets and doom-loop thresholds would have kept and saved in recorded runs",
        "Reads logs, says what they lack, shows for each limit what it would have kept of the successes and saved of "
        "the steps, and recommends a setting, or says how many successes that takes. Nothing is run again and nothing "
        "is sent anywhere.",
        """
        VALUES:
          20          one value; without any values for any setting, all step caps,
                      tool budgets and doom-loop thresholds that make a difference
          2,3,4,5     several
          1:200       a range with its end; 1:200:5 is every fifth of it
          5,10,none   none is off

        examples:
          boolab whatif ~/.claude/projects --since 30d
          boolab whatif runs/*.json --scope run --steps 1:200 --doom 2,3,4,5
          boolab whatif runs.jsonl --labels labels.csv --keep 0.9 --by agent
          boolab whatif datasets/runs --exempt wait_for_build --json
          boolab whatif logs/ --steps 5:50:5,none --cost 0.1,0.5 -o table.csv

        --json prints one object: schema, boolab, made_at, question, data (files, runs, what was skipped and what is
        missing), axes (by axis a row for each value and group: kept_lower and kept_upper of successes, what is spent
        and saved_, the others off), recommendation (sentences; groups, a row each; paths, what was
        found for each kind of limit).
        """,
        "LOGS [LOGS ...]",
    )
    _add_logs(parser)
    _add_question(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text, and nothing else")
    parser.add_argument("-o", "--out", metavar="FILE", type=_table_file, help="write all combinations of the settings "
                        "to this .csv or .parquet file, one row each (default: none is written)")  # fmt: skip


def _whatif(args: argparse.Namespace) -> int:
    from boolab.report import tell  # noqa: PLC0415 - slow to import

    study = _study(args)
    if args.out is not None:
        _write_table(study, Path(args.out))
    print(tell.as_json(study) if args.json else tell.text(study))
    if args.out is not None:
        print(f"boolab: wrote {args.out}", file=sys.stderr)
    return 0


def _add_report(commands: Commands) -> None:
    parser = _command(
        commands,
        "report",
        _report,
        "write the same answers, with figures and the runs behind each number, as one HTML page",
        "The page needs no network and holds no script; it can be mailed or printed. It holds excerpts of the logs' "
        "texts: look before you share it, or leave them out with --no-transcripts.",
        """
        VALUES:
          20 (one), 2,3,4,5 (several), 1:200 (a range with its end), 1:200:5 (every
          fifth of it), 5,10,none (none is off)

        examples:
          boolab report ~/.claude/projects --since 30d -o report.html
          boolab report logs/ --scope run --no-transcripts -o to_share.html
        """,
        "LOGS [LOGS ...]",
    )
    _add_logs(parser)
    _add_question(parser)
    parser.add_argument("--title", metavar="TEXT", help="what the page is called (default: after the logs)")
    parser.add_argument("--no-transcripts", action="store_true", help="leave out what was said and done in the runs")
    parser.add_argument(
        "-o", "--out", metavar="FILE", default="report.html", help="the page to write, .html (default: %(default)s)"
    )


def _report(args: argparse.Namespace) -> int:
    from boolab.report.page import page_of  # noqa: PLC0415 - slow to import
    from boolab.report.recipe import Sources  # noqa: PLC0415

    sources = Sources(args.logs, args.format, args.since, args.limit)
    page = page_of(_study(args), title=args.title, transcripts=not args.no_transcripts, sources=sources)
    out = Path(args.out).expanduser()
    _written(out, lambda: out.write_text(page, encoding="utf-8"))
    print(f"Wrote {out} ({len(page.encode()) / 1000:,.0f} kB): open it in a browser")
    return 0


def _add_logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOGS", nargs="+", help=_LOGS)
    group = parser.add_argument_group("which logs")
    group.add_argument("--format", metavar="NAME", help=_FORMAT)
    _add_window(group, _NEWEST)
    group.add_argument(
        "--labels",
        metavar="FILE",
        help="which runs were successes: a .csv with the columns run_id (or task) and "
        "success, or a .json with a mapping or rows (default: what the logs say)",
    )


def _add_window(parser: Any, limit: str) -> None:  # noqa: ANN401 - a parser or a group of it
    parser.add_argument(
        "--since",
        metavar="WHEN",
        type=_since,
        help="only files changed since then: so long ago, such as 45m, 12h, 30d or 2w, "
        "or a date such as 2026-11-01, local time (default: all files)",
    )
    parser.add_argument("--limit", metavar="N", type=_positive, help=limit)


def _add_question(parser: argparse.ArgumentParser) -> None:
    settings = parser.add_argument_group("settings to look at")
    for option, (_, what) in AXES.items():
        settings.add_argument(f"--{option}", metavar="VALUES", type=_axis(option), help=f"{what} (default: "
                              f"{'those that matter' if option in _EXAMINED else 'not looked at'})")  # fmt: skip
    group = parser.add_argument_group("how to count")
    group.add_argument("--scope", choices=("auto", "turn", "run"), default="auto", help="turn: counters start anew at "
                       "each user message; run: they run on through the session; auto: as the harness of each "
                       "log counts (default: %(default)s)")  # fmt: skip
    group.add_argument("--policy", metavar="NAME", help="the harness whose limits are asked, by its order of "
                       f"precedence, its identity, and what else stops it, {_HARNESS} (default: none)")  # fmt: skip
    group.add_argument("--identity", choices=("raw", "ordered", "canonical", "call+result", "tool"),
                       help="what two calls that are the same agree in: the tool with its arguments as text (raw), "
                       "with keys in order (ordered), in any order (canonical), with the result too (call+result), or "
                       "the tool alone (default: canonical, or the policy's)")  # fmt: skip
    group.add_argument("--exempt", metavar="TOOL", action="append", default=[],
                       help="a tool whose repeats are no loop, such as one that polls; may be repeated "
                       "(default: none)")  # fmt: skip
    group.add_argument("--by", metavar="COLUMN", action="append", default=[],
                       help="a column of runs_df by which runs are kept apart, such as agent or model; may be repeated "
                       "(default: all together)")  # fmt: skip
    group.add_argument("--no-prices", dest="prices", action="store_false", help="leave costs unknown that a log does "
                       "not tell (default: those of Claude Code and Codex are computed from tokens at list prices, "
                       "where boolab[prices] is installed)")  # fmt: skip
    advice = parser.add_argument_group("what to recommend")
    advice.add_argument("--keep", metavar="SHARE", type=_share, default=0.95, help="the share of successes to keep, "
                        "between 0 and 1 (default: %(default)s)")  # fmt: skip
    advice.add_argument("--confidence", metavar="SHARE", type=_share, default=0.95, help="how sure that is to be, "
                        "between 0 and 1 (default: %(default)s)")  # fmt: skip
    advice.add_argument("--objective", choices=("cost", "tokens", "tool_calls", "steps"), default="cost",
                        help="what to save: dollars, tokens, tool calls or steps (default: %(default)s, or else what "
                        "the source tells)")  # fmt: skip
    advice.add_argument("--success", choices=("label", "ended"), help="what a success is: a label, or that the turn "
                        "ended by itself (default: labels where there are any)")  # fmt: skip


def _study(args: argparse.Namespace) -> Study:
    from boolab.report.study import study_of  # noqa: PLC0415 - slow to import

    return study_of(
        args.logs,
        _question(args),
        format=args.format,
        since=args.since[1] if args.since else None,
        limit=args.limit,
        progress=sys.stderr.isatty(),
    )


def _question(args: argparse.Namespace) -> Question:
    from boolab.presets import get_policy  # noqa: PLC0415 - slow to import
    from boolab.report.study import Question  # noqa: PLC0415

    grid = {axis: values for option, (axis, _) in AXES.items() if (values := getattr(args, option)) is not None}
    identity: Any = args.identity
    if args.exempt:
        same = identity or (get_policy(args.policy).identity if args.policy else "canonical")
        identity = {"*": same, **dict.fromkeys(args.exempt)}
    return Question(
        grid=grid or None,
        scope=args.scope,
        identity=identity,
        policy=args.policy,
        by=tuple(args.by),
        keep=args.keep,
        confidence=args.confidence,
        objective=args.objective,
        success=args.success,
        labels=args.labels,
        prices=args.prices,
    )


def _write_table(study: Study, path: Path) -> None:
    from boolab.spreadsheets import write_csv  # noqa: PLC0415 - slow to import
    from boolab.tables import check_pyarrow  # noqa: PLC0415

    if path.suffix == ".parquet":
        check_pyarrow()
    table, out = study.table(), path.expanduser()
    _written(out, lambda: table.to_parquet(out, index=False) if path.suffix == ".parquet" else write_csv(table, out))


def _written(path: Path, write: Callable[[], _Result]) -> _Result:
    """Write a file; what hinders it is an error of boolab's."""
    try:
        return write()
    except (OSError, ImportError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SettingError(f"{path}: {why}") from error


# --- Running an agent -------------------------------------------------------------------------------------------------


def _add_run(commands: Commands) -> None:
    parser = _command(
        commands,
        "run",
        _run,
        "run an agent on a task, with a model behind an API or a script, and keep the record",
        "Shows what the model says as it comes, its tool calls and what they gave. The tools only read, and only below "
        "--root. Ctrl-C ends the run and keeps its record; a second one leaves at once, without it.",
        """
        AGENT is a name in an agents file, or an .md file that holds one agent; without it, or with -, the model runs
        bare. Names are looked up in ./AGENTS.md, agents/AGENTS.md, and among the agents that come with boolab:
        refactorer, architect, explorer, answerer, debugger, reviewer, planner, auditor, scout.

        The key comes from the environment: from the variable that the provider's own tools read (OPENAI_API_KEY for
        api.openai.com, ANTHROPIC_API_KEY for api.anthropic.com, OPENROUTER_API_KEY for openrouter.ai, ...), which is
        sent to that host only; for any other server from the one that --key-env names. It is no option, because
        anybody on the machine can read the options of a process.

        examples:
          boolab run explorer "Who calls the loop?" --model gpt-4.1-mini
          boolab run "Say hello" --model claude-haiku-4-5 --max-cost 0.01
          boolab run explorer "Who calls the loop?" --steps 20 \\
              --model qwen3 --base-url http://127.0.0.1:8080/v1
          boolab run my_agent.md "Find the bug" --key-env MY_KEY \\
              --model m --base-url https://api.example.com/v1
          boolab run explorer "Look around" --model datasets/scripts/polling.yaml
          boolab run scout "Who calls it?" --model gpt-4.1-mini --record told.jsonl
          boolab run scout "Who calls it?" --model told.jsonl --steps 3

        exit codes:
          0         it finished
          1         it failed
          2         wrong usage
          3         a limit stopped it, or it waits for an answer
          130       Ctrl-C; its record is kept
          143, 129  a kill, a closed terminal; its record is kept
        """,
        "[AGENT] TASK --model MODEL",
    )
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="who runs (default: -, a bare model)")
    parser.add_argument("task", metavar="TASK", help="what is asked")
    parser.add_argument("--agents", metavar="PATH", help="the file, or the folder, in which to look for AGENT "
                        "(default: the places below)")  # fmt: skip
    parser.add_argument("--root", metavar="FOLDER", default=".", help="the folder that the tools read "
                        "(default: the current one)")  # fmt: skip
    model = parser.add_argument_group("what answers")
    model.add_argument("--model", metavar="MODEL", help="a name that the server knows; a script (.yaml), played in "
                       "real time; or a recording (.jsonl) that --record made (default: the agent's own)")  # fmt: skip
    model.add_argument("--base-url", metavar="URL", help="the server, such as http://127.0.0.1:8080/v1 (default: the "
                       "provider's own)")  # fmt: skip
    model.add_argument("--protocol", choices=("openai", "anthropic"), help="what it speaks (default: anthropic for "
                       "names that begin with claude and for api.anthropic.com, else openai)")  # fmt: skip
    model.add_argument("--key-env", metavar="NAME", help="the environment variable that holds the key "
                       "(default: the provider's own)")  # fmt: skip
    model.add_argument("--temperature", metavar="T", type=_amount, help="the sampling temperature, 0 or more "
                       "(default: the agent's, or else the server's)")  # fmt: skip
    model.add_argument("--seed", metavar="N", type=_whole, help="the seed, a whole number, for servers that take "
                       "one (default: none is sent)")  # fmt: skip
    model.add_argument("--param", metavar="NAME=JSON", type=_parameter, action="append", default=[],
                       help="a parameter of the request, passed on as it is, such as top_p=0.9; may be repeated "
                       "(default: none)")  # fmt: skip
    limits = parser.add_argument_group("limits")
    limits.add_argument("--policy", metavar="NAME", help=f"the harness whose rules hold, {_HARNESS} (default: "
                        "the agent's, or boocode)")  # fmt: skip
    for option, what, least in (
        ("steps", "answers of the model, 0 or more", 0),
        ("budget", "tool calls, 0 or more", 0),
        ("doom", "times the same call in a row, 2 or more", 2),
    ):
        limits.add_argument(f"--{option}", metavar="N", type=_limit(least), help=f"at most so many {what}, or none for "
                            "no limit (default: the agent's, or the policy's)")  # fmt: skip
    limits.add_argument("--max-cost", metavar="DOLLARS", type=_amount, help="stop once so much was spent, such as "
                        "0.05; a cost that nobody tells is an error (default: no limit)")  # fmt: skip
    limits.add_argument("--max-time", metavar="SECONDS", type=_amount, help="stop at the first step after so long "
                        "(default: no limit)")  # fmt: skip
    told = parser.add_argument_group("what is kept and shown")
    told.add_argument("-o", "--out", metavar="FILE", help="where the record goes: a new .jsonl or .parquet file "
                      "(default: runs/START-AGENT.jsonl)")  # fmt: skip
    told.add_argument("--record", metavar="FILE", help="write requests and responses to a new .jsonl file, to be "
                      "played again as a MODEL (default: no file)")  # fmt: skip
    how = told.add_mutually_exclusive_group()
    how.add_argument("--quiet", action="store_true", help="print the last word alone")
    how.add_argument("--json", action="store_true", help="print the events as JSON lines, and nothing else")


def _run(args: argparse.Namespace) -> int:
    from boolab.run_command import run_command  # noqa: PLC0415 - slow to import

    return run_command(args)


# --- Stores -----------------------------------------------------------------------------------------------------------


def _add_store(commands: Commands) -> None:
    parser = _command(
        commands,
        "store",
        _store,
        "say what is in a store of runs, show a run or a sweep, export runs, remove what is not needed",
        "A store is the file that a sweep with store= writes. The other commands and load_runs read it like any log, "
        "also while a sweep writes it.",
        """
        examples:
          boolab store ls runs.db
          boolab store show runs.db 1
          boolab store export runs.db runs.parquet --sweep 1
          boolab store prune runs.db --replaced --interrupted
        """,
        "ACTION ...",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True, prog=parser.prog)
    for add in (_add_ls, _add_show, _add_export, _add_prune):
        add(actions)


def _add_ls(actions: Commands) -> None:
    parser = _command(
        actions,
        "ls",
        _store,
        "say which sweeps a store holds, how far they are, and how many runs are in which state",
        "Changes nothing; may be asked while a sweep writes.",
        """
        examples:
          boolab store ls runs.db
          boolab store ls runs.db --json | jq '.sweeps[] | select(.ended_at == null)'
        """,
        "FILE",
    )
    _add_file(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text: schema, version, "
                        "bytes, sweeps, states, loose, being_written")  # fmt: skip


def _add_show(actions: Commands) -> None:
    parser = _command(
        actions,
        "show",
        _store,
        "show a sweep, or a run",
        "A sweep: what it is made of, how far it is, and why its runs ended. A run: its whole transcript, folded.",
        """
        examples:
          boolab store show runs.db 1        the first sweep
          boolab store show runs.db 3f9a     the run whose id begins like this
        """,
        "FILE RUN_OR_SWEEP",
    )
    _add_file(parser)
    parser.add_argument("which", metavar="RUN_OR_SWEEP", help="a sweep's number, or a run's id or the beginning of it")


def _add_export(actions: Commands) -> None:
    parser = _command(
        actions,
        "export",
        _store,
        "write the runs of a store to a file, whatever their number",
        "A .parquet file has a row for each step and needs pyarrow; a .jsonl file is ATIF, which other tools read too. "
        "A file that is there is replaced.",
        """
        examples:
          boolab store export runs.db runs.jsonl
          boolab store export runs.db runs.parquet --sweep 1
        """,
        "FILE TARGET",
    )
    _add_file(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write, .parquet or .jsonl")
    parser.add_argument("--sweep", metavar="N", type=_positive, help="the runs of the sweep with this number alone "
                        "(default: all runs)")  # fmt: skip


def _add_prune(actions: Commands) -> None:
    parser = _command(
        actions,
        "prune",
        _store,
        "remove runs from a store, and make its file smaller",
        "Says first what would be removed, and asks. At least one of --replaced, --interrupted and --sweep says what. "
        "Runs whose steps are part of runs that stay are kept.",
        """
        examples:
          boolab store prune runs.db --replaced --interrupted
          boolab store prune runs.db --sweep 1 --yes
        """,
        "FILE",
    )
    _add_file(parser)
    parser.add_argument("--replaced", action="store_true", help="remove runs that were run again since")
    parser.add_argument("--interrupted", action="store_true", help="remove runs that did not come to their end")
    parser.add_argument("--sweep", metavar="N", type=_positive, help="remove the sweep with this number, and the runs "
                        "that no other sweep has (default: none)")  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the store, such as runs.db")


def _store(args: argparse.Namespace) -> int:
    from boolab.store_command import store_command  # noqa: PLC0415 - slow to import

    return store_command(args)


# --- Values of options: what they do not accept is wrong usage --------------------------------------------------------


def _axis(option: str) -> Callable[[str], list[Any]]:
    """How the values of an axis are read."""
    least = 2 if option == "doom" else 0

    def read(text: str) -> list[Any]:
        try:
            values = values_of(text, float if option in ("cost", "seconds") else int)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        if any(value is not None and value < least for value in values):
            raise argparse.ArgumentTypeError(f"{text!r}: expected {least} or more")
        return values

    return read


def _since(text: str) -> tuple[str, Any]:
    try:
        return text, since_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, 1 or more")
    return int(text)


def _whole(text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, such as 7")
    return int(text)


def _limit(least: int) -> Callable[[str], int | str]:
    """How a limit of a run is read."""

    def read(text: str) -> int | str:
        if text == "none" or (text.isdecimal() and int(text) >= least):
            return text if text == "none" else int(text)
        raise argparse.ArgumentTypeError(f"{text!r}: expected {least} or more, or none")

    return read


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number, 0 or more")
    return value


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=JSON, such as top_p=0.9")
    try:
        return name, json.loads(value)
    except ValueError as error:
        msg = f"{text!r}: {error}; a text needs quotes within quotes, such as '{name}=\"{value}\"'"
        raise argparse.ArgumentTypeError(msg) from error


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; accepted: a number between 0 and 1, such as 0.95")
    return value


def _table_file(text: str) -> str:
    if Path(text).suffix not in (".csv", ".parquet"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a name that ends with .csv or .parquet")
    return text


# --- Demonstration and notebooks --------------------------------------------------------------------------------------


def _add_demo(commands: Commands) -> None:
    parser = _command(
        commands,
        "demo",
        _demo,
        "run every shipped agent on every shipped script and report why the runs stop",
        "Runs under each agent's own limits, under a grid of step caps, tool budgets and doom-loop thresholds, and "
        "under other policies; shows three ways in which a loop can fail; writes figures (.png) and tables (.csv). "
        "The models are scripted: it needs no network and no key, and costs nothing.",
        """
        examples:
          boolab demo
          boolab demo --quick -o out/quick
        """,
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="FOLDER",
        default="out/demo",
        help="the folder for figures and tables (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="run a smaller grid: fewer runs, the same report")


def _demo(args: argparse.Namespace) -> int:
    from boolab.demo import GRID, QUICK_GRID, demo  # noqa: PLC0415 - slow to import

    print(demo(args.out, grid=QUICK_GRID if args.quick else GRID, progress=sys.stderr.isatty()))
    return 0


def _add_lab(commands: Commands) -> None:
    parser = _command(
        commands,
        "lab",
        _lab,
        "open JupyterLab on the notebooks",
        "Without a checkout, the notebooks that come with boolab are copied to ./boolab-notebooks first; what is there "
        "already stays as it is. What follows -- goes to JupyterLab as it is; the exit code is JupyterLab's.",
        """
        examples:
          boolab lab
          boolab lab my_notebooks
          boolab lab notebooks -- --no-browser --port=8899
        """,
        "[PATH] [-- OPTION ...]",
    )
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help="a folder or a notebook (default: the notebooks that come with boolab)"
    )
    parser.add_argument("options", metavar="-- OPTION", nargs="*", help="options of JupyterLab (default: none)")


def _lab(args: argparse.Namespace) -> int:
    if args.path is not None and args.path.startswith("-"):
        command = lab_command(None, [args.path, *args.options])
    else:
        command = lab_command(args.path, args.options)
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - it becomes JupyterLab, with its own output and exit code


def lab_command(path: str | None = None, options: Sequence[str] = ()) -> list[str]:
    """What `boolab lab` runs.

    Args:
        path: A folder or a notebook; by default the notebooks that come with boolab. Without a checkout, these are
            copied to ./boolab-notebooks first; what is there already stays as it is.
        options: Options for JupyterLab.

    Raises:
        SettingError: if there is nothing at `path`, or no JupyterLab.

    Example:
        >>> lab_command(".", ["--no-browser"])[1:]
        ['-m', 'jupyterlab', '.', '--no-browser']
    """
    if find_spec("jupyterlab") is None:
        msg = f"JupyterLab is not installed for {sys.executable}: pip install jupyterlab"
        raise SettingError(msg)
    place = notebooks_to_work_in() if path is None else Path(path).expanduser()
    if not place.exists():
        msg = f"{place} does not exist"
        raise SettingError(msg)
    return [sys.executable, "-m", "jupyterlab", str(place), *options]
