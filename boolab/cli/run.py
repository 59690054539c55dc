"""The command `boolab run`: its arguments. `run_agent` does the work, and imports the engine."""

from __future__ import annotations

import argparse
from typing import Final

from boolab.cli.arguments import HARNESS, add_server, amount, limit_from, option_of, parameter, parse_whole
from boolab.cli.help import Command
from boolab.limits.table import AGENT_LIMITS, LIMITS

EPILOG: Final = """
    AGENT is a name in an agents file, or an .md file that holds one agent; without it, or with -, the model runs
    bare. Names are looked up in ./AGENTS.md, agents/AGENTS.md, and among the agents that come with boolab:
    refactorer, architect, explorer, answerer, debugger, reviewer, planner, auditor, scout.

    The key comes from the environment: from the variable that the provider's own tools read (OPENAI_API_KEY for
    api.openai.com, ANTHROPIC_API_KEY for api.anthropic.com, OPENROUTER_API_KEY for openrouter.ai, ...), which is
    sent to that host only; for any other server from the one that --key-env names. There is no option for it,
    because every user of the machine can read the options of a process.

    examples:
      boolab run explorer "Who calls the loop?" --model gpt-4.1-mini
      boolab run "Say hello" --model claude-haiku-4-5 --max-cost 0.01
      boolab run explorer "Who calls the loop?" --max-steps 20 \\
          --model qwen3 --base-url http://127.0.0.1:8080/v1
      boolab run my_agent.md "Find the bug" --key-env MY_KEY \\
          --model m --base-url https://api.example.com/v1
      boolab run explorer "Look around" --model datasets/scripts/polling.yaml
      boolab run scout "Who calls it?" --model gpt-4.1-mini --record run.jsonl
      boolab run scout "Who calls it?" --model run.jsonl --max-steps 3
    """


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="who runs (default: -, a bare model)")
    parser.add_argument("task", metavar="TASK", help="the task, as the user's message")
    parser.add_argument(
        "--agents",
        metavar="PATH",
        help="the file, or the folder, in which AGENT is looked up (default: the places below)",
    )
    parser.add_argument(
        "--root", metavar="FOLDER", default=".", help="the folder that the tools read (default: the current one)"
    )
    _add_model(parser)
    _add_limits(parser)
    record_options = parser.add_argument_group("what is kept and shown")
    record_options.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="where the record goes: a new .jsonl or .parquet file (default: runs/START-AGENT.jsonl)",
    )
    record_options.add_argument(
        "--record",
        metavar="FILE",
        help="write requests and responses to a new .jsonl file, to use as a MODEL later (default: no file)",
    )
    output_options = record_options.add_mutually_exclusive_group()
    output_options.add_argument("--quiet", action="store_true", help="print the final answer alone")
    output_options.add_argument("--json", action="store_true", help="print the events as JSON lines, and nothing else")


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what answers")
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="a name that the server knows; a script (.yaml), played in real time; or a recording (.jsonl) that "
        "--record made (default: the agent's own)",
    )
    add_server(group)
    group.add_argument(
        "--temperature",
        metavar="T",
        type=amount,
        help="the sampling temperature, 0 or more (default: the agent's, or else the server's)",
    )
    group.add_argument(
        "--seed",
        metavar="N",
        type=parse_whole,
        help="the seed, a whole number, for servers that accept one (default: none is sent)",
    )
    group.add_argument(
        "--param",
        metavar="NAME=JSON",
        type=parameter,
        action="append",
        default=[],
        help="a parameter of the request, passed on unchanged, such as top_p=0.9; may be repeated (default: none)",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--policy",
        metavar="NAME",
        help=f"the harness whose rules hold, {HARNESS} (default: the agent's, or boocode)",
    )
    for name in AGENT_LIMITS:
        axis = LIMITS[name]
        group.add_argument(
            option_of(name),
            metavar="N",
            type=limit_from(axis.min_value),
            help=f"the {axis.label}, {axis.min_value} or more, or none for no limit: stop {axis.meaning} "
            "(default: the agent's, or the policy's)",
        )
    group.add_argument(
        "--max-cost",
        metavar="DOLLARS",
        type=amount,
        help="stop once this much was spent, such as 0.05; an unknown cost is an error (default: no limit)",
    )
    group.add_argument(
        "--max-time",
        metavar="SECONDS",
        type=amount,
        help="stop at the first step after this many seconds (default: no limit)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the agent."""
    from boolab.cli.run_agent import run_agent

    return run_agent(args)


COMMAND: Final = Command(
    run,
    add,
    "Shows the model's text as it comes, its tool calls and their results. The tools only read, and only below --root. "
    "Ctrl-C ends the run and keeps its record; a second one ends the process at once, without it.",
    EPILOG,
    "[AGENT] TASK --model MODEL",
    {
        0: "it finished",
        1: "it failed, or could not begin",
        3: "a limit stopped it, or it waits for an answer",
        129: "its terminal was closed; its record is kept",
        130: "Ctrl-C; its record is kept",
        143: "it was killed; its record is kept",
    },
)
