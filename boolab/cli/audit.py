"""The command `boolab audit`: were the limits that were set enforced, and which of them matter?"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import TYPE_CHECKING, Any, Final

from boolab.cli.arguments import FORMAT, HARNESS, LOGS, add_scope, add_since, amount, since_time
from boolab.cli.help import Command
from boolab.errors import ReadWarning

if TYPE_CHECKING:
    from boolab.live.audits.audit import Audit
    from boolab.logs.load import FileRow

SCHEMA: Final = 1
EXCEEDED: Final = 3
"""The exit code if a run went beyond a limit."""

EPILOG: Final = """
    verdicts:
      exceeded    the run continued beyond what the harness's rule allows
      hit         the log shows that the limit stopped the run, or a turn of it
      at limit    it ended in the middle at the limit, and the log names no cause
      kept        the run ended at half of the limit or above, not by it
      never near  the run ended below half of the limit
      unknown     the log does not show what the limit counts

    examples:
      boolab audit ~/.claude/projects --since 30d
      boolab audit ~/.claude/projects --limit max_turns=30
      boolab audit logs/ --limit turn_limit=50 --limit critic.turn_limit=10
      boolab audit logs/ --json
      boolab audit atlas/tau-airline --limit max_steps=200

    --json prints one object: schema, boolab, exceeded (how many rows), sentences, notes, limits (a row for each run and
    limit), binding (a row for each agent and limit), checks (a row for each figure of a log that differs from what was
    read of it).
    """


def limit(text: str) -> tuple[str, str, float]:
    """A limit, [AGENT.]NAME=NUMBER: the agent, the name and the number.

    Example:
        >>> limit("max_turns=10"), limit("explore.max_turns=10")
        (('', 'max_turns', 10), ('explore', 'max_turns', 10))
    """
    path, equals, value = text.rpartition("=")
    agent, _, name = ("", "", path) if path.startswith("features.") else path.rpartition(".")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=NUMBER or AGENT.NAME=NUMBER, such as max_turns=10")
    number = amount(value)
    return agent, name, int(number) if number.is_integer() else number


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("logs", metavar="LOGS", nargs="+", help=LOGS)
    group = parser.add_argument_group("which logs")
    group.add_argument("--format", metavar="NAME", help=FORMAT)
    add_since(group)
    declared = parser.add_argument_group("what was declared")
    declared.add_argument(
        "--limit",
        dest="limits",
        metavar="[AGENT.]NAME=N",
        type=limit,
        action="append",
        default=[],
        help="a limit in the harness's words or as an option of boolab whatif, such as max_turns=10; with an agent it "
        "is for that agent's runs, with * for all, else for all runs that no other run started; may be repeated "
        "(default: the limits in the logs, and in the configuration files that are found from there)",
    )
    declared.add_argument(
        "--config",
        metavar="PATH",
        action="append",
        default=[],
        help="a configuration file of a harness, or a project's folder with such files; may be repeated (default: "
        "those in the folders that the logs name, and above the logs)",
    )
    counting = parser.add_argument_group("how to count")
    counting.add_argument(
        "--policy",
        metavar="NAME",
        help=f"the harness whose rules count, {HARNESS} (default: that of each log)",
    )
    add_scope(counting)
    parser.add_argument(
        "--warnings", action="store_true", help="list the skipped files, and what else could not be read, on stderr"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text, and nothing else")
    parser.add_argument(
        "--full", action="store_true", help="print all rows and columns, and the table of how often each limit bound"
    )


def run(args: argparse.Namespace) -> int:
    """Print the audit; the exit code shows whether a limit was exceeded."""
    from boolab.live.audits.audit import audit_files, log_files
    from boolab.logs.problems import problems_of

    limits: dict[str, Any] = {}
    for agent, name, value in args.limits:
        (limits.setdefault(agent, {}) if agent else limits)[name] = value
    rows: list[FileRow] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)  # the rows have them
        audit = audit_files(
            log_files(args.logs, args.format, since_time(args), rows),
            limits or "auto",
            config=args.config,
            policy=args.policy,
            scope=args.scope,
            rows=rows,
        )
    problems = problems_of(rows)
    if str(problems):
        ending = ":" if args.warnings else "; --warnings lists them"
        print(f"boolab: {problems}{ending}", file=sys.stderr)
        for line in problems.lines() if args.warnings else ():
            print(f"  {line}", file=sys.stderr)
    print(as_json(audit) if args.json else audit.text(full=args.full))
    return EXCEEDED if len(audit.exceeded) else 0


def as_json(audit: Audit) -> str:
    """What `--json` prints."""
    from importlib.metadata import version

    from boolab.report.text import records

    data = {
        "schema": SCHEMA,
        "boolab": version("boolab"),
        "exceeded": len(audit.exceeded),
        "sentences": list(audit.sentences),
        "notes": list(audit.notes),
        "limits": records(audit.frame),
        "binding": records(audit.binding),
        "checks": records(audit.checks),
    }
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)


COMMAND: Final = Command(
    run,
    add,
    "A limit is counted and evaluated as the harness of each log does it: what it counts, and what one more response "
    "it allows. Each run and limit gets a verdict; then follow how often each limit stopped anybody, and which can "
    "never fire. docs/howto/audit_in_ci.md shows it in continuous integration.",
    EPILOG,
    "LOGS [LOGS ...]",
    {0: "no run went beyond a limit that was set", 3: "a run went beyond a limit that was set"},
)
