"""Who is measured, in which ways, and what each does on the way that others do not."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

WORK: Final = Path(__file__).parent / "adapters" / "work.py"
"""The script that measures; it runs under the Python of each peer."""


class Peer(NamedTuple):
    """A package beside which boolab is measured.

    Attributes:
        package: The distribution, as its registry calls it; boolab itself runs in this environment.
        does: What it does in a step beyond the bare loop, or is there for, as its installed code shows.
    """

    package: str
    does: str

    @property
    def adapter(self) -> str:
        """The module in `adapters` that runs it."""
        return f"{self.package.replace('-', '_')}_peer"


class Row(NamedTuple):
    """One line of the table: a peer in one of the ways that its adapter has."""

    label: str
    package: str
    variant: str


OWN: Final = ("bare", "boolab")
"""What runs in this very environment."""

PEERS: Final = (
    Peer("bare", "Awaits a model, parses arguments, calls a function, appends dictionaries. No limits, no record."),
    Peer(
        "boolab",
        "It evaluates its stop rules before each step, validates responses and the arguments of calls, and "
        "keeps a record of every step, call and result for tables and counterfactuals. It has no structured "
        "output, no handoffs, no MCP, no guardrails, no sandbox of containers, no tracing to other systems, "
        "and two wire protocols for real models.",
    ),
    Peer(
        "pydantic-ai-slim",
        "Typed messages and validated arguments and outputs, many providers, retries that the model sees, "
        "toolsets, MCP, durable execution. Each step prepares the whole history again (it orders results, and looks "
        "for orphaned ones and for compaction), so a step costs more the longer the run is.",
    ),
    Peer(
        "inspect-ai",
        "A framework for evaluations: each sample's transcript of events goes to a log file that its viewer and "
        "its DataFrames read; scorers, sandboxes, approval, limits on tokens, time and cost. The start of an "
        "evaluation is in the figures, shared by few runs.",
    ),
    Peer(
        "langgraph",
        "A graph whose nodes read and write a shared state in supersteps: checkpointers, interrupts, time travel, "
        "streams of several kinds, and all models of langchain. Measured without a checkpointer.",
    ),
    Peer(
        "openai-agents",
        "Handoffs, guardrails, sessions, MCP, tracing. Each step normalises the items of the whole run and "
        "fingerprints its calls, so that a step costs more the longer the run is. Its tracing is on by default; "
        "here it is off, and in a row of its own keeps every span in a list.",
    ),
    Peer(
        "autogen-agentchat",
        "Agents that are members of teams: events for each call and result, handoffs, memory, cancellation, "
        "workbenches, components that are saved as configuration.",
    ),
    Peer(
        "smolagents",
        "A memory of steps that is written out as messages for each request, so that a step costs more the longer "
        "the run is; agents that write code, planning steps, managed agents.",
    ),
    Peer(
        "mini-swe-agent",
        "A small agent whose one tool is the shell: templates for what the model sees, a trajectory that is made "
        "after each step and written where a path is given. The environment here adds without a shell.",
    ),
    Peer(
        "strands-agents",
        "An event loop with hooks, metrics, traces to OpenTelemetry, a summary or window over the messages, and "
        "agents beside each other. A turn calls the next one recursively.",
    ),
    Peer("agno", "Sessions, memory, knowledge, teams and workflows; metrics of each run."),
)

NOTES: Final = {
    ("pydantic-ai-slim", "UsageLimits.request_limit"): (
        "exact. As documented, the exception has no messages; they are available only through a context manager "
        "around the run."
    ),
    ("inspect-ai", "turn_limit"): (
        "the response that crosses it is requested and paid for, then left out of the messages; the sample names the "
        "limit."
    ),
    ("inspect-ai", "message_limit"): (
        "counts messages of all roles, the prompt's among them; react has no cap of its own."
    ),
    ("langgraph", "recursion_limit (create_react_agent)"): (
        "counts supersteps: a response is one, its tools are another. If too few are left, a text in the "
        "model's name replaces the model's last response, and the graph returns as if it had finished."
    ),
    ("langgraph", "recursion_limit (create_agent)"): (
        "counts supersteps too, and raises; the state is left only with a checkpointer."
    ),
    ("langgraph", "ModelCallLimitMiddleware.run_limit"): "exact; it ends with a message in the model's name.",
    ("openai-agents", "max_turns"): "exact; the exception carries the record.",
    ("autogen-agentchat", "max_tool_iterations"): (
        "exact, and 1 by default. The last result is returned as the answer; no stop reason shows that it was stopped."
    ),
    ("smolagents", "max_steps"): "exact; then one more request, without tools, for an answer.",
    ("mini-swe-agent", "step_limit"): "exact; 0 is no limit.",
    ("strands-agents", "limits['turns']"): "exact; the agent's messages stay as they were.",
    ("agno", "tool_call_limit"): (
        "a limit on calls: further calls are refused with a result, and requests continue as long as the model makes "
        "calls. The model here gave up at its 50th request."
    ),
    ("boolab", "max_steps"): "exact; the run has its reason, its rule, and every step.",
}
"""What is to be said of a limit beside its line, by package and limit: as measured, and as installed code has it."""

ROWS: Final = (
    Row("bare loop", "bare", "bare"),
    Row("bare loop, rows and a DataFrame", "bare", "rows"),
    Row("boolab", "boolab", "limits"),
    Row("boolab, no limits", "boolab", "no limits"),
    Row("boolab, preset boocode", "boolab", "boocode"),
    Row("boolab, ScriptedModel", "boolab", "scripted"),
    Row("boolab, with steps_df at the end", "boolab", "frame"),
    Row("pydantic-ai", "pydantic-ai-slim", "agent"),
    Row("inspect-ai", "inspect-ai", "log"),
    Row("inspect-ai, no samples in its log", "inspect-ai", "no samples in the log"),
    Row("langgraph, create_agent", "langgraph", "create_agent"),
    Row("langgraph, create_react_agent", "langgraph", "create_react_agent"),
    Row("openai-agents, no tracing", "openai-agents", "no tracing"),
    Row("openai-agents, spans in a list", "openai-agents", "tracing"),
    Row("autogen", "autogen-agentchat", "AssistantAgent"),
    Row("smolagents", "smolagents", "ToolCallingAgent"),
    Row("mini-swe-agent", "mini-swe-agent", "DefaultAgent"),
    Row("strands", "strands-agents", "Agent"),
    Row("agno", "agno", "Agent"),
)
