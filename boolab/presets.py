"""The presets: known harnesses, each as one `Policy`.

What each harness does was read from its source or documentation, or measured on its released package; `source` says
where. A preset is a harness as it comes: its own defaults, no settings of a user. Where versions differ, `source` names
the one that is meant. `docs/conformance.md` shows which presets were run against the released packages.

What no preset has, because it is not about when to stop: prompts, retries of failed requests, sandboxes, approval of
single commands, checks by a second model (Gemini CLI's from turn 30 on).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from boolab.actions import ActionStreak
from boolab.chants import Chanting
from boolab.compaction import Compaction
from boolab.cycles import Cycle
from boolab.detectors import ErrorStreak, RepeatStreak
from boolab.errors import SettingError
from boolab.policy import Guard, Policy
from boolab.scopes import Detections
from boolab.stop import is_whole
from boolab.streaks import FinishStreak, IdleStreak, RoundStreak, SameError, TimeoutStreak, ToolErrors
from boolab.windows import StepRepeats

_OPENCODE_LOOP: Final = "while(true) over interruptible effects"

_PRESETS: Final = (
    Policy(
        name="boocode",
        source="BooCode v1.14, the outer loop that replaced recursion",
        loop_style="while under the cap; doom loop and budget asked at its top",
        finish_guard="a response without tool calls",
        weakness="asks the budget only between batches: the last one overshoots",
        order=("steps", "doom_loop", "tool_budget"),
        budget_read_only=50,
        budget_writing=10,
        budget_no_agent=50,
        doom_loop=3,
        ceiling=200,
        continues=2,
        continue_counters="fresh",
        sentinel=True,
        summary="model",
    ),
    Policy(
        name="opencode_3631",
        source="opencode issue 3631, maxSteps as it was asked for",
        loop_style="while; the request of the last step carries no tools",
        finish_guard="a response without tool calls",
        weakness="looks at the number of steps only",
        last_step="no_tools",
        zero_steps="invalid",
        limit_status="without_text",
    ),
    Policy(
        name="opencode_v1",
        source="opencode, packages/opencode/src/session/prompt.ts (runLoop) and processor.ts",
        loop_style=_OPENCODE_LOOP,
        finish_guard="yes, after tools have run: a reason, not tool_calls, no calls, nothing new from the user",
        weakness="complex state machine; the cap only asks; a repeat is seen within one message only",
        cap="soft",
        last_step="prompt",
        last_prompt="Maximum steps reached: call no more tools, and answer in text with what you have.",
        zero_steps="invalid",
        finish=("reason_given", "reason_not_tool_calls", "no_calls", "no_new_input"),
        idle="again",
        queued="reminder",
        compaction=Compaction(reserve=20_000),
        guards=(Guard(detector=RepeatStreak("ordered"), ladder=((3, "ask"),), check="call", scope="message"),),
    ),
    Policy(
        name="opencode_v2",
        source="opencode V2, packages/core/src/session/runner/llm.ts; loop.md for the tools of the last request",
        loop_style="nested while: queued turns outside, steps inside",
        finish_guard="a response without tool calls, and nothing new from the user",
        weakness="no detector; new input of the user makes the steps count anew",
        last_step="tool_choice_none",
        last_text_finishes=True,
        refusal="Tools are disabled after the maximum agent steps",
        zero_steps="invalid",
        finish=("no_calls", "no_new_input"),
        fatal_reasons=("unknown",),
        input_resets_cap=True,
        own_words=(("step_cap", "done"), ("finished", "done")),
        compaction=Compaction(reserve=20_000),
    ),
    Policy(
        name="finish_aware",
        source="the study of opencode's runLoop: its recipe for a finish-reason-aware exit",
        loop_style="while true; the exit check at its top",
        finish_guard="yes: the reason is not tool_calls, and no calls",
        weakness="a cap of 50 stands for a doom loop",
        steps=50,
        finish=("reason_not_tool_calls", "no_calls"),
        idle="again",
        own_words=(("step_cap", "possible doom loop"),),
    ),
    Policy(
        name="claude_code",
        source="Claude Code and its Agent SDK, docs agent-sdk/agent-loop: max_turns, max_budget_usd (both off)",
        loop_style="recursive calls",
        finish_guard="not explicit: a response without tool calls",
        weakness="control flow hard to trace through recursion; no detector",
        order=("steps", "cost_budget"),
        cap_counts="tool_steps",
        cap_check="response",
        own_words=(("step_cap", "error_max_turns"), ("cost_budget", "error_max_budget_usd"), ("finished", "success")),
    ),
    Policy(
        name="aider",
        source="Aider, aider/coders/base_coder.py: max_reflections = 3; an edit that does not apply is a failed call",
        loop_style="prompt first, then look for work",
        finish_guard="no: nothing left to mend ends it",
        weakness="sequential: sends everything, then checks",
        steps=4,
        zero_steps="plain",
        goes_on="after_errors",
        execution="sequence",
        queued="kept",
        own_words=(("step_cap", "num_reflections >= max_reflections"),),
    ),
    Policy(
        name="cline",
        source="Cline: agent-runtime.ts and loop-detection.ts of its SDK; one tool per message as in the extension",
        loop_style="sequential, one tool per message",
        finish_guard="no batching: a text, or attempt_completion",
        weakness="no parallel tools",
        finish_tools=("attempt_completion",),
        fatal_reasons=("length",),
        execution="one_per_message",
        own_words=(("step_cap", "failed"), ("doom_loop", "aborted"), ("error", "failed")),
        guards=(
            Guard(
                detector=RepeatStreak("canonical"), ladder=((3, "nudge"), (5, "stop")), check="call", scope="session"
            ),
            Guard(detector=ErrorStreak(), ladder=((6, "stop"),)),
        ),
    ),
    Policy(
        name="roo",
        source="Roo Code, src/core/tools/ToolRepetitionDetector.ts and Task.ts",
        loop_style="while; every reply must use a tool",
        finish_guard="attempt_completion only",
        weakness="a plain answer is a mistake; the user is asked, not the run stopped",
        zero_steps="unlimited",
        finish=(),
        finish_tools=("attempt_completion",),
        idle_prompt="You used no tool. Call one, or attempt_completion if the work is done.",
        execution="one_per_message",
        guards=(
            Guard(
                detector=RepeatStreak("canonical"), ladder=((4, "block"),), check="call", rearm="fire", block_asks=True
            ),
            Guard(detector=IdleStreak(), ladder=((4, "ask"),), reason="error_streak", rearm="fire"),
        ),
    ),
    Policy(
        name="autogpt",
        source="AutoGPT classic, autogpt/app/main.py: cycles_remaining, three invalid outputs",
        loop_style="while with max_iterations",
        finish_guard="count only: the finish command, or no cycles left",
        weakness="counts, does not look at content",
        cap_counts="actions",
        zero_steps="unlimited",
        finish=(),
        finish_tools=("finish",),
        idle="again",
        execution="one_per_message",
        queued="kept",
        guards=(Guard(detector=IdleStreak(), ladder=((3, "stop"),), reason="error_streak"),),
    ),
    Policy(
        name="inspect_react",
        source="Inspect, src/inspect_ai/agent/_react.py and its sample limits",
        loop_style="while true until submit or a limit",
        finish_guard="submit, called without an error",
        weakness="the response that breaks the limit is paid and dropped; the sample still counts as a success",
        order=("token_budget", "cost_budget", "steps", "time_budget"),
        cap_check="response",
        zero_steps="plain",
        spend_after="exceeded",
        finish=(),
        finish_tools=("submit",),
        idle_prompt="Go on with the next step. If the work is finished, call submit with the answer.",
        final_reasons=("model_length",),
        execution="sequence",
        tool_failures="unexpected_fatal",
        own_words=(
            ("stuck", "success"),
            ("error", "error"),
            ("step_cap", "success, limit turn"),
            ("token_budget", "success, limit token"),
            ("cost_budget", "success, limit cost"),
            ("time_budget", "success, limit time"),
            ("finished", "success"),
        ),
        guards=(Guard(detector=FinishStreak("content_filter"), ladder=((3, "stop"),), check="response"),),
    ),
    Policy(
        name="pydantic_ai",
        source="pydantic-ai, pydantic_ai/usage.py: UsageLimits (request_limit = 50)",
        loop_style="graph: request, handle response, tools, again",
        finish_guard="a text that is a valid output",
        weakness="raises at the limit, and the caller loses what was paid for",
        order=("guards", "steps", "tool_budget", "token_budget", "cost_budget"),
        steps=50,
        zero_steps="plain",
        budget_batch="reject",
        spend_before="exceeded",
        spend_after="exceeded",
        finish=("no_calls", "has_text"),
        fatal_reasons=("length",),
        fatal_if="empty",
        idle="again",
        queued="kept",
        own_words=(
            ("step_cap", "UsageLimitExceeded"),
            ("tool_budget", "UsageLimitExceeded"),
            ("token_budget", "UsageLimitExceeded"),
            ("cost_budget", "UsageLimitExceeded"),
            ("error_streak", "UnexpectedModelBehavior"),
            ("error, ModelError", "OutputTokenLimitExceeded"),
        ),
        tool_failures="unexpected_fatal",
        guards=(
            Guard(detector=Detections(IdleStreak(), 1), ladder=((2, "stop"),), reason="error_streak"),
            Guard(detector=ToolErrors(), ladder=((2, "stop"),)),
        ),
    ),
    Policy(
        name="mini_swe_agent",
        source="mini-swe-agent v2, minisweagent/agents/default.py: step_limit 0 (off), cost_limit $3, wall time 0",
        loop_style="while true: query, run, observe",
        finish_guard="the submission marker, here the tool submit",
        weakness="no wrap-up, no detector",
        order=("guards", "steps", "cost_budget", "time_budget"),
        zero_steps="unlimited",
        cost_budget=3.0,
        finish=(),
        finish_tools=("submit",),
        finish_batch="until",
        unknown_tools="rejected",
        idle_prompt="No action was found in the response. Give exactly one.",
        execution="sequence",
        queued="kept",
        own_words=(
            ("step_cap", "LimitsExceeded"),
            ("cost_budget", "LimitsExceeded"),
            ("time_budget", "TimeExceeded"),
            ("error_streak", "RepeatedFormatError"),
            ("finished", "Submitted"),
        ),
        guards=(Guard(detector=IdleStreak(), ladder=((3, "stop"),), reason="error_streak"),),
    ),
    Policy(
        name="swe_agent",
        source="SWE-agent, sweagent/agent/agents.py and models.py: $3 an instance, calls off, three requeries",
        loop_style="while not done: one action, with bounded requeries",
        finish_guard="the submission, here the tool submit",
        weakness="the response that breaks the limit is paid and dropped",
        order=("cost_budget", "steps", "guards"),
        cap_check="response",
        zero_steps="unlimited",
        cost_budget=3.0,
        spend_before="unchecked",
        spend_after="exceeded",
        finish=(),
        finish_tools=("submit",),
        idle_prompt="The response could not be parsed: give exactly one action.",
        execution="exactly_one",
        queued="kept",
        summary="static",
        own_words=(
            ("step_cap", "submitted (exit_cost)"),
            ("cost_budget", "submitted (exit_cost)"),
            ("error_streak", "submitted (exit_format)"),
            ("error_streak, timeout_streak", "submitted (exit_command_timeout)"),
            ("finished", "submitted"),
        ),
        guards=(
            Guard(detector=IdleStreak(), ladder=((3, "stop"),), reason="error_streak"),
            Guard(detector=TimeoutStreak(), ladder=((3, "stop"),)),
        ),
    ),
    Policy(
        name="openhands",
        source="OpenHands software-agent-sdk, conversation/impl/local_conversation.py and stuck_detector.py",
        loop_style="while true under a lock; a status machine",
        finish_guard="a text without tool calls, or finish",
        weakness="compares thoughts too: other words hide a loop",
        order=("cost_budget", "steps", "guards"),
        steps=500,
        zero_steps="plain",
        finish=("no_calls", "has_text"),
        finish_tools=("finish",),
        idle_prompt="Your reply holds neither text nor a tool call. Use a tool, or finish.",
        execution="sequence",
        own_words=(
            ("step_cap", "MaxIterationsReached"),
            ("cost_budget", "MaxBudgetReached"),
            ("stuck", "STUCK"),
            ("error_streak", "STUCK"),
            ("finished", "FINISHED"),
        ),
        guards=(
            Guard(detector=ActionStreak("repeating"), ladder=((4, "stop"),)),
            Guard(detector=ActionStreak("failing"), ladder=((3, "nudge"), (4, "stop"))),
            Guard(detector=IdleStreak(), ladder=((3, "stop"),)),
            Guard(detector=ActionStreak("alternating"), ladder=((6, "stop"),)),
        ),
    ),
    Policy(
        name="openhands_classic",
        source="OpenHands classic, openhands/controller/agent_controller.py and stuck.py",
        loop_style="event-driven controller, one action a step",
        finish_guard="finish, or a message to the user",
        weakness="kills agents that wait for a long process (issues 5355, 10350)",
        order=("guards", "steps", "cost_budget"),
        steps=500,
        zero_steps="plain",
        continues=None,
        continues_by="ask",
        finish_tools=("finish",),
        execution="sequence",
        own_words=(("step_cap", "ERROR"), ("cost_budget", "ERROR"), ("stuck", "STUCK"), ("error_streak", "STUCK")),
        guards=(
            Guard(detector=ActionStreak("repeating"), ladder=((4, "stop"),)),
            Guard(detector=ActionStreak("failing"), ladder=((3, "stop"),)),
            Guard(detector=IdleStreak(), ladder=((3, "stop"),)),
            Guard(detector=ActionStreak("alternating"), ladder=((6, "stop"),)),
        ),
    ),
    Policy(
        name="gemini_cli",
        source="Gemini CLI, packages/core/src/core/client.ts and services/loopDetectionService.ts",
        loop_style="recursive generator; tool results come back as new turns",
        finish_guard="no pending calls, and the user speaks next",
        weakness="a second detection ends the prompt, also in a pipeline (issue 19953)",
        own_words=(("step_cap", "MaxSessionTurns"), ("stuck", "LoopDetected")),
        guards=(
            Guard(
                detector=Detections(Cycle("ordered"), 5),
                ladder=((1, "nudge"), (2, "stop")),
                check="call",
                nudge_executes=False,
            ),
            Guard(detector=Chanting(), ladder=((1, "nudge"), (2, "stop"))),
        ),
    ),
    Policy(
        name="gemini_subagent",
        source="Gemini CLI, packages/core/src/agents/local-executor.ts: 30 turns, 10 minutes, one grace turn",
        loop_style="while true: check, ask, run tools",
        finish_guard="complete_task only",
        weakness="a plain answer is a violation of the protocol",
        order=("steps", "time_budget"),
        steps=30,
        time_budget=600.0,
        zero_steps="plain",
        last_step="grace",
        last_prompt="You have been stopped. Call complete_task now with what you have; call nothing else.",
        finish=(),
        finish_tools=("complete_task",),
        idle="grace",
        own_words=(
            ("step_cap", "MAX_TURNS"),
            ("time_budget", "TIMEOUT"),
            ("error_streak", "ERROR_NO_COMPLETE_TASK_CALL"),
            ("finished", "GOAL"),
        ),
    ),
    Policy(
        name="autogen",
        source="AutoGen AssistantAgent: max_tool_iterations = 1, reflect_on_tool_use off",
        loop_style="bounded for-loop inside one reply",
        finish_guard="a response without tool calls, or no iterations left",
        weakness="by default no model ever sees the last results",
        steps=1,
        zero_steps="invalid",
        queued="kept",
        summary="static",
        own_words=(("step_cap", "normal response"), ("finished", "normal response")),
    ),
    Policy(
        name="smolagents",
        source="smolagents, src/smolagents/agents.py: max_steps = 20",
        loop_style="ReAct steps; the memory is written anew for each",
        finish_guard="final_answer",
        weakness="the wrap-up bypasses final_answer (issue 825)",
        steps=20,
        zero_steps="default",
        finish=(),
        finish_tools=("final_answer",),
        finish_batch="alone",
        idle_prompt="The response could not be parsed for a tool call. Call a tool, or final_answer.",
        queued="kept",
        summary="model",
        own_words=(("step_cap", "max_steps_error"), ("finished", "success")),
    ),
    Policy(
        name="ai_sdk",
        source="Vercel AI SDK, ToolLoopAgent: stopWhen isStepCount(20); generateText stops after 1",
        loop_style="do-while over steps",
        finish_guard="no calls, or a stop condition",
        weakness="no calls is an implicit stop that no condition can override (issue 8544)",
        steps=20,
        zero_steps="unlimited",
        queued="kept",
        own_words=(("step_cap", "tool-calls"), ("finished", "stop")),
    ),
    Policy(
        name="langgraph_react",
        source="LangGraph, prebuilt/chat_agent_executor.py (create_react_agent): recursion_limit 10007",
        loop_style="graph: model and tools in turn, each a superstep",
        finish_guard="a response without tool calls",
        weakness="an apology counts as a success (issue 5548)",
        steps=10_007,
        cap_counts="supersteps",
        cap_check="response",
        zero_steps="invalid",
        queued="kept",
        tool_failures="fatal",
        summary="static",
        static_summary="An answer would need more steps.",
        own_words=(
            ("step_cap, even cap", "success"),
            ("step_cap, odd cap", "GraphRecursionError"),
            ("error, ToolError", "ToolException"),
            ("finished", "success"),
        ),
    ),
    Policy(
        name="openai_agents",
        source="openai-agents, src/agents/run.py: max_turns = 10",
        loop_style="while true: a turn, then tools, a handoff or the output",
        finish_guard="an output of the right type, without tool calls",
        weakness="the limit raises; what was done is in the exception only",
        steps=10,
        zero_steps="plain",
        queued="kept",
        unknown_tools="fatal",
        own_words=(
            ("step_cap", "MaxTurnsExceeded"),
            ("error, ModelError", "ModelBehaviorError"),
            ("finished", "final_output"),
        ),
    ),
    Policy(
        name="goose",
        source="goose, crates/goose/src/agents/agent.rs: 1000 turns; REP-002 of one stored version",
        loop_style="streaming loop with hooks and steering",
        finish_guard="no calls, and nothing new from the user",
        weakness="its own rule on repeated calls is off",
        steps=1000,
        zero_steps="plain",
        finish=("no_calls", "has_text", "no_new_input"),
        idle="again",
        guards=(
            Guard(detector=SameError(), ladder=((3, "block"),), check="call", rearm="fire"),
            Guard(detector=IdleStreak(), ladder=((4, "stop"),), reason="error_streak"),
        ),
    ),
    Policy(
        name="crush",
        source="crush, internal/agent/loop_detection.go and agent.go",
        loop_style="library loop with stop conditions and a queue",
        finish_guard="a response without tool calls, or a stop condition",
        weakness="looks after ten steps only",
        order=(),
        compaction=Compaction(reserve=20_000, small_window=200_000, small_share=0.2),
        guards=(Guard(detector=StepRepeats(10), ladder=((6, "stop"),)),),
    ),
    Policy(
        name="openrouter",
        source="OpenRouter agent SDK, docs agent-sdk/call-model: doom-loop-detection, stop-conditions",
        loop_style="tool loop with stop conditions and a ladder",
        finish_guard="a response without tool calls, or a stop condition",
        weakness="other arguments evade it; results are not looked at",
        last_step="tool_choice_none",
        last_step_in_cap=False,
        zero_steps="plain",
        guards=(
            Guard(
                detector=RoundStreak("canonical"),
                ladder=((2, "shadow"), (3, "block"), (6, "stop")),
                check="call",
                scope="session",
            ),
        ),
    ),
    Policy(
        name="naive",
        source="the loop that opencode's study warns of: break on finish_reason == stop",
        loop_style="while true; believes the finish reason",
        finish_guard="the finish reason stop, whatever else is in the response",
        weakness="drops tool calls when a provider says stop too early",
        finish=("reason_stop",),
        idle="again",
    ),
)

policies: Final[dict[str, Policy]] = {policy.name: policy for policy in _PRESETS}
"""The presets by name, as `boolab.policies` gives them; docs/harnesses.md lays them side by side."""


def get_policy(policy: str | Policy) -> Policy:
    """A policy as it is, or the preset of that name.

    Raises:
        SettingError: if there is no such preset.
    """
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str) and policy in policies:
        return policies[policy]
    msg = f"there is no policy {policy!r}; presets: {', '.join(sorted(policies))}"
    raise SettingError(msg)


def fixed_turns(n: int) -> Policy:
    """A limit on turns, of which every request reminds the model.

    Returns:
        The policy.

    Source: arXiv 2510.16786: caps at the 25th, 50th or 75th percentile of the turns of unlimited runs, with a reminder
    of the turns left in each; at the 75th, 24 to 68% cheaper with little loss.

    Args:
        n: The cap on steps, at least 1.

    Raises:
        SettingError: if n is not an integer >= 1.

    Example:
        >>> fixed_turns(20).reminder
        'turns_left'
    """
    return Policy(
        name=f"fixed_turns({_positive('fixed_turns', n)})",
        source="arXiv 2510.16786: fixed turn limits, with a reminder of the turns left",
        loop_style="while under the cap",
        finish_guard="a response without tool calls, or task_done",
        weakness="one cap for easy and hard tasks",
        steps=n,
        zero_steps="invalid",
        reminder="turns_left",
        finish_tools=("task_done",),
    )


def dynamic_turns(n: int, extend: int) -> Policy:
    """A limit on turns that is extended once, for the runs that need it.

    The cap is reached with work under way: it grows by `extend`, the model is told, and the second time it is the end.
    Source: arXiv 2510.16786, by which that saves another 12 to 24% over a fixed limit. Neither limit is the paper's:
    which ones to take is what `counterfactual` and `recommend` are for.

    Args:
        n: The cap on steps at first, at least 1.
        extend: By how many steps it grows, at least 1.

    Returns:
        The policy.

    Raises:
        SettingError: if one is not an integer >= 1.

    Example:
        >>> dynamic_turns(20, 10).continue_adds
        10
    """
    return replace(
        fixed_turns(n),
        name=f"dynamic_turns({n}, {_positive('dynamic_turns', extend)})",
        source="arXiv 2510.16786: dynamic turn limits",
        loop_style="while under a cap that is extended once",
        weakness="both limits come from earlier runs",
        continues=1,
        continues_by="loop",
        continue_adds=extend,
    )


def _positive(what: str, n: object) -> int:
    if not is_whole(n) or n < 1:
        msg = f"{what}: {n!r} is not accepted; expected an integer >= 1"
        raise SettingError(msg)
    return n
