"""Evidence and a judge for `boolab label`: found before the first question, and shown after each answer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from boolab.cli.arguments import add_evidence, add_server, agrees, amount
from boolab.core.text import count, flatten, replace_controls
from boolab.display.text import align_columns, wrap_text
from boolab.errors import SettingError
from boolab.logs.outcomes.frame import check_sources

if TYPE_CHECKING:
    from boolab.core.run import Run
    from boolab.logs.units import LabelUnit
    from boolab.stats.recommend.desk_session import Desk

_MAX_FAILURES: Final = 3
"""After so many failed requests in a row no other one is made."""


def add_evidence_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of evidence and of the judge."""
    group = parser.add_argument_group("evidence, which is shown after each answer")
    add_evidence(group)
    group.add_argument(
        "--judge",
        metavar="MODEL",
        help="ask a model for each unit: a name that the server knows, or a script (.yaml); needs --max-cost "
        "(default: none)",
    )
    group.add_argument(
        "--max-cost", metavar="DOLLARS", type=amount, help="the most that the judge may cost (default: none is asked)"
    )
    group.add_argument(
        "--cost-limit",
        metavar="DOLLARS",
        type=amount,
        help="the most that one request of the judge may cost (default: the list price of 26,000 tokens of input and "
        "16,000 of output)",
    )
    add_server(group)
    group.add_argument(
        "--yes", action="store_true", help="send the requests of the judge without asking (default: the first is shown)"
    )


def check_evidence(args: argparse.Namespace) -> None:
    """Raise `SettingError` if arguments of evidence lack others, or are about none."""
    check_sources(args.evidence)
    if args.judge and args.max_cost is None:
        msg = "--judge needs --max-cost, the most that all requests may cost, in dollars"
        raise SettingError(msg)
    if args.git and "git" not in args.evidence:
        msg = "--git needs --evidence git"
        raise SettingError(msg)
    if args.no_questions and not (args.evidence or args.judge):
        msg = "--no-questions needs --evidence or --judge: there is nothing else to do"
        raise SettingError(msg)
    for action in ("disagreements", "export", "merge"):
        if getattr(args, action) and (args.evidence or args.judge):
            raise SettingError(f"--{action} shows no evidence: leave out --evidence and --judge")


def find_evidence(desk: Desk, args: argparse.Namespace) -> None:
    """Look for the evidence that is asked for, and ask the judge; what was found is in the file then."""
    from boolab.stats.recommend.desk_evidence import add_sources

    if not (args.evidence or args.judge):
        return
    if not desk.has_started:
        print("No unit was drawn yet, so there is no evidence to look for.")
        return
    if args.evidence:
        add_sources(desk, args.evidence, args.git or True)
    if args.judge:
        _ask_judge(desk, args, desk.asked_units)


def write_evidence(desk: Desk, args: argparse.Namespace) -> int:
    """Look for the evidence of all units, and print a table by source, and what the sources differ about."""
    from boolab.logs.outcomes.labels import JoinedLabels
    from boolab.report.outcomes import MAX_DISAGREEMENTS, OutcomeSources
    from boolab.stats.recommend.desk_evidence import add_sources

    if args.evidence:
        add_sources(desk, args.evidence, args.git or True, desk.all_units)
    if args.judge:
        _ask_judge(desk, args, desk.all_units)
    labels = JoinedLabels([desk.file], desk.trust)
    found = OutcomeSources(labels.apply([*desk.runs]), labels.unit_lines, desk.trust)
    heads = ("source", "success", "failure", "unknown", "agrees by hand")
    rows = [
        (row.words, f"{row.success:,}", f"{row.failure:,}", f"{row.unknown:,}", row.agreement) for row in found.rows
    ]
    print("\n".join(align_columns([heads, *rows], left=(0, 4))))
    print()
    print(wrap_text(found.title))
    for differing in found.disagreements[:MAX_DISAGREEMENTS]:
        turn = "" if differing.unit.turn is None else f" turn {differing.unit.turn}"
        print(wrap_text(f"{flatten(differing.unit.run_id)}{turn}: {flatten(differing.words)}"))
    for note in found.notes():
        print(wrap_text(note))
    return 0


def _ask_judge(desk: Desk, args: argparse.Namespace, units: Sequence[tuple[Run, LabelUnit]]) -> None:
    """Ask a model about the units that it did not answer yet; each answer is in the file before the next request."""
    from boolab.cli.run_agent import model_of
    from boolab.trials.judge import SOURCE, judge_units

    arguments = {"model": args.judge, "base_url": args.base_url, "protocol": args.protocol, "key_env": args.key_env}
    model, address = model_of(argparse.Namespace(**arguments, param=[]), None)
    details = [line.get("detail") for line in desk.file.labels if line.get("source") == SOURCE]
    keys = {str(detail.get("key")) for detail in details if isinstance(detail, dict)}

    def confirm(request: str) -> bool:
        print(f"The first request to the judge:\n\n{replace_controls(request)}\n")
        requests = count(len(units), "request")
        is_agreed = agrees(f"Send it? At most {requests} to {flatten(address)}, for at most ${args.max_cost:,}.")
        if not is_agreed:
            print("Nothing was sent.")
        return is_agreed

    judgements = judge_units(
        [*units[-1:], *units[:-1]],  # the first request is shown, so it is about the unit that is asked about last
        model,
        max_cost=args.max_cost,
        criteria=desk.criterion,
        cost_limit=args.cost_limit,
        git=(args.git or True) if "git" in args.evidence else False,
        scope=desk.scope,
        confirm=None if args.yes else confirm,
        answered_keys=keys,
    )
    failures: list[str] = []
    n_missing = 0
    for judgement in judgements:
        if judgement.state == "answered":
            failures = []
            evidence = judgement.evidence
            desk.add_evidence([(judgement.unit, evidence._replace(detail={**evidence.detail, "key": judgement.key}))])
        elif judgement.state == "failed":
            failures.append(judgement.evidence.why)
            if len(failures) == _MAX_FAILURES:
                break
        else:
            n_missing += 1
    if failures:
        print(f"The judge was not asked any further: {flatten(failures[-1])}.")
    if n_missing:
        print(f"--max-cost was reached: {n_missing:,} of {count(len(units), desk.recorded.noun)} were not judged.")
