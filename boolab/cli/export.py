"""The command `boolab export`: limits as the settings of a harness, printed or written."""

from __future__ import annotations

import argparse
import sys
from textwrap import fill
from typing import Any, Final

from boolab.cli.arguments import add_budget, add_logs, add_question, option_of, parse_positive, study_from
from boolab.cli.help import Command
from boolab.core.commands import insert_program
from boolab.core.text import replace_controls
from boolab.display.text import wrap_if_long, wrap_text
from boolab.errors import SettingError
from boolab.harnesses.exports.export import export
from boolab.harnesses.exports.values import Export, Limits
from boolab.harnesses.registry import TARGETS
from boolab.limits.table import LIMITS
from boolab.limits.token_count import TokenCount

INDENT: Final = " " * 6
EPILOG: Final = f"""
    TARGET:
{fill(", ".join(TARGETS), 72, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False)}

    examples:
      boolab export boolab --max-steps 56 --doom-loop 5
      boolab export boolab --max-steps 56 --agent coder --write
      boolab export boolab atlas/intercode-python --keep 0.9

    docs/howto/set_it_in_my_harness.md has for each target what is set where, how the harness counts it, and what it
    cannot express.
    """


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("target", metavar="TARGET", choices=list(TARGETS), help="the harness: see below")
    add_logs(parser, optional="the settings are those of the options")
    parser.add_argument(
        "--agent",
        metavar="NAME",
        help="the agent that is limited; of a recommendation for each agent, this one's (default: all agents)",
    )
    parser.add_argument(
        "--group",
        metavar="NAME",
        help="of a recommendation for each group, this one's, by its name as whatif prints it: an agent that ran with "
        "two models may be in two (default: the only one with this agent)",
    )
    parser.add_argument(
        "--write",
        metavar="PATH",
        nargs="?",
        const="",
        help="show what changes in the harness's files as a diff, and write it; PATH is the folder of the project, or "
        "a file in place of the usual one (default: nothing is written; without PATH the current folder)",
    )
    group = parser.add_argument_group("the context, without LOGS")
    for option, text in (
        ("--compact-at", "the compaction threshold: above so many tokens the history is summarised"),
        ("--window", "the context window of the model, where the threshold is a part of it"),
        ("--max-output", "the most tokens of a response of the model, likewise"),
    ):
        group.add_argument(option, metavar="TOKENS", type=parse_positive, help=f"{text} (default: not set)")
    parser.add_argument(
        "--token-weights",
        metavar="WEIGHTS",
        type=token_weights,
        help="the weights of tokens in --max-tokens by kind, such as input=0.1,output=1; cached input is 0 and input "
        "written to the cache is as other input, unless they are among them (default: all tokens count 1)",
    )
    add_question(parser)
    add_budget(parser)


def token_weights(text: str) -> dict[str, float]:
    """The weights of --token-weights.

    Example:
        >>> token_weights("input=0.1,output=1")
        {'input': 0.1, 'output': 1.0}
    """
    pairs = (part.partition("=") for part in text.split(","))
    try:
        weights = {name.strip(): float(number) for name, _, number in pairs}
        TokenCount.from_weights(weights)
    except ValueError as error:  # a `SettingError` is one too
        reason = f": {error}" if isinstance(error, SettingError) else ""
        raise argparse.ArgumentTypeError(f"{text!r}: expected weights such as input=0.1,output=1{reason}") from error
    return weights


def run(args: argparse.Namespace) -> int:
    """Print the settings, or the diff of the files that were written."""
    settings = _exported_settings(args)
    rest = [part for part in settings.parts if part.path is None]
    if args.write is None or len(rest) == len(settings.parts):
        print(replace_controls(str(settings)))
        if args.write is None:
            return 0
    changed = settings.write(args.write or None)
    print(changed or f"boolab: nothing to write: {settings.title[:1].lower()}{settings.title[1:]} is set already")
    for part in rest:
        heading = wrap_text(f"Not written, to be pasted: {part.how}", first="# ", rest="# ")
        print(insert_program(replace_controls(f"\n{heading}\n{part.text}".rstrip())))
    for note in filter(None, (settings.lost, *settings.notes)):
        print(wrap_if_long(f"boolab: {replace_controls(note)}"), file=sys.stderr)
    return 0


def _exported_settings(args: argparse.Namespace) -> Export:
    """The export of what is recommended for the logs, or else of the limits that the options give."""
    if args.logs and args.compact_at is not None:
        msg = "--compact-at: it is not recommended from LOGS; export it by itself"
        raise SettingError(msg)
    if args.logs:
        recommendation = study_from(args).found
        args.unanswered = not recommendation.limits_by_group()
        return recommendation.export(args.target, args.agent, args.group)
    if args.group is not None:
        msg = "--group: a group is one of a recommendation, which needs LOGS"
        raise SettingError(msg)
    values: dict[str, Any] = {}
    for axis in LIMITS:
        option_values = getattr(args, axis)
        if option_values is not None and len(option_values) != 1:
            raise SettingError(f"{option_of(axis)}: several values need LOGS to choose from; expected one value")
        values[axis] = option_values[0] if option_values else None
    values |= {name: getattr(args, name) for name in ("compact_at", "window", "max_output", "token_weights")}
    if args.compact_at is None and not any(values[axis] is not None for axis in LIMITS):
        msg = "there is nothing to export: give a limit such as --max-steps 56, or LOGS to recommend one from"
        raise SettingError(msg)
    from boolab.harnesses.presets import get_policy

    policy = None if args.policy is None else get_policy(args.policy)
    default_identity = "canonical" if policy is None else policy.detectors.identity
    return export(
        args.target,
        Limits(
            **values,
            identity=args.identity or default_identity,
            exempt=tuple(args.exempt),
            scope="run" if args.scope == "run" else "turn",
            agent=args.agent,
            policy=policy,
        ),
    )


COMMAND: Final = Command(
    run,
    add,
    "With LOGS it recommends the limits first, as whatif does; without, they are those of the options. It prints what "
    "to paste where, and writes nothing without --write.",
    EPILOG,
    "TARGET [LOGS ...]",
)
