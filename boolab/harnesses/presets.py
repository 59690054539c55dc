"""The presets: known harnesses, each as one `Policy`.

A preset has the harness's own defaults, without a user's settings. They come from its source or documentation, or from
a measurement of its released package; `source` names the place, and the version if versions differ.
`docs/conformance.md` lists the presets that were compared with the released packages.

No preset has what does not affect when a run stops: prompts, retries of failed requests, sandboxes, approval of single
commands, checks by a second model (Gemini CLI's from turn 30 on).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from boolab.core.types import Identities
from boolab.errors import SettingError, near
from boolab.harnesses.compaction import Compaction
from boolab.harnesses.groups import (
    About,
    Budgets,
    Cap,
    Continues,
    Detectors,
    Execution,
    Finish,
    Inputs,
    LastStep,
    WrapUp,
)
from boolab.harnesses.policy import Policy
from boolab.harnesses.policy_card import Presets
from boolab.io.checks import is_whole, repr_of
from boolab.limits.call_identity import exempting
from boolab.limits.detectors.cycles import Cycle
from boolab.limits.detectors.openhands import ActionStreak
from boolab.limits.detectors.streaks import (
    ErrorStreak,
    FinishStreak,
    IdleStreak,
    RepeatStreak,
    RoundStreak,
    SameError,
    TimeoutStreak,
    ToolErrors,
)
from boolab.limits.detectors.text import RepeatedText
from boolab.limits.detectors.windows import StepRepeats
from boolab.limits.detectors.wrappers import Detections
from boolab.limits.guard import Guard
from boolab.limits.stop import StopRule

_OPENCODE_LOOP: Final = "while(true) over interruptible effects"

_THREE_IDLE: Final = Guard(detector=IdleStreak(), ladder=((3, "stop"),), reason="error_streak")


def _guards(*guards: Guard) -> Detectors:
    return Detectors(guards=guards)


_PRESETS: Final = (
    Policy(
        name="boocode",
        order=("max_steps", "doom_loop", "tool_budget"),
        about=About(
            source="BooCode v1.14, the outer loop that replaced recursion",
            loop_style="while under the cap; doom loop and budget evaluated at its top",
            finish_guard="a response without tool calls",
            weakness="evaluates the budget only between batches: the last one overshoots",
        ),
        cap=Cap(ceiling=200),
        continues=Continues(times=2, counters="fresh"),
        budgets=Budgets(read_only=50, writing=10, no_agent=50),
        detectors=Detectors(doom_loop=3),
        wrap_up=WrapUp(sentinel=True, summary="model"),
    ),
    Policy(
        name="opencode_3631",
        about=About(
            source="opencode issue 3631, maxSteps as it was requested",
            loop_style="while; the request of the last step carries no tools",
            finish_guard="a response without tool calls",
            weakness="looks at the number of steps only",
        ),
        cap=Cap(zero="invalid"),
        last_step=LastStep(action="no_tools"),
        wrap_up=WrapUp(limit_status="without_text"),
    ),
    Policy(
        name="opencode_v1",
        compaction=Compaction(reserve=20_000),
        about=About(
            source="opencode, packages/opencode/src/session/prompt.ts (runLoop) and processor.ts",
            loop_style=_OPENCODE_LOOP,
            finish_guard="yes, after tools have run: a reason, not tool_calls, no calls, nothing new from the user",
            weakness="complex state machine; the cap is only a request; a repeat is detected within one message only",
        ),
        cap=Cap(kind="soft", zero="invalid"),
        last_step=LastStep(
            action="prompt", prompt="Maximum steps reached: call no more tools, and answer in text with what you have."
        ),
        detectors=_guards(Guard(detector=RepeatStreak("ordered"), ladder=((3, "ask"),), check="call", scope="message")),
        finish=Finish(conditions=("reason_given", "reason_not_tool_calls", "no_calls", "no_new_input"), idle="again"),
        inputs=Inputs(queued="reminder"),
    ),
    Policy(
        name="opencode_v2",
        compaction=Compaction(reserve=20_000),
        about=About(
            source="opencode V2, packages/core/src/session/runner/llm.ts; loop.md for the tools of the last request",
            loop_style="nested while: queued turns outside, steps inside",
            finish_guard="a response without tool calls, and nothing new from the user",
            weakness="no detector; new input of the user resets the count of steps",
            own_words=(("step_cap", "done"), ("finished", "done")),
        ),
        cap=Cap(zero="invalid"),
        last_step=LastStep(
            action="tool_choice_none", text_finishes=True, refusal="Tools are disabled after the maximum agent steps"
        ),
        finish=Finish(conditions=("no_calls", "no_new_input"), fatal_reasons=("unknown",)),
        inputs=Inputs(reset_cap=True),
    ),
    Policy(
        name="finish_aware",
        about=About(
            source="the study of opencode's runLoop: its recipe for a finish-reason-aware exit",
            loop_style="while true; the exit check at its top",
            finish_guard="yes: the reason is not tool_calls, and no calls",
            weakness="a cap of 50 stands for a doom loop",
            own_words=(("step_cap", "possible doom loop"),),
        ),
        cap=Cap(max_steps=50),
        finish=Finish(conditions=("reason_not_tool_calls", "no_calls"), idle="again"),
    ),
    Policy(
        name="claude_code",
        order=("max_steps", "cost_budget"),
        about=About(
            source="Claude Code 2.1.330, run: --max-turns, CLAUDE_CODE_MAX_TURNS, --max-budget-usd and a subagent's "
            "maxTurns (all off); docs/cli_conformance.md",
            loop_style="recursive calls",
            finish_guard="not explicit: a response without tool calls",
            weakness="control flow hard to trace through recursion; no detector; a subagent that was cut is a success",
            own_words=(
                ("step_cap", "error_max_turns"),
                ("cost_budget", "error_max_budget_usd"),
                ("finished", "success"),
            ),
        ),
        cap=Cap(zero="unlimited"),
    ),
    Policy(
        name="aider",
        about=About(
            source="Aider, aider/coders/base_coder.py: max_reflections = 3; "
            "an edit that does not apply is a failed call",
            loop_style="prompt first, then look for work",
            finish_guard="no: it ends when nothing is left to fix",
            weakness="sequential: sends everything, then checks",
            own_words=(("step_cap", "num_reflections >= max_reflections"),),
        ),
        cap=Cap(max_steps=4, zero="plain"),
        finish=Finish(asks_again="after_errors"),
        execution=Execution(calls="sequence"),
        inputs=Inputs(queued="kept"),
    ),
    Policy(
        name="cline",
        about=About(
            source="Cline: agent-runtime.ts and loop-detection.ts of its SDK; one tool per message as in the extension",
            loop_style="sequential, one tool per message",
            finish_guard="no batching: a text, or attempt_completion",
            weakness="no parallel tools",
            own_words=(("step_cap", "failed"), ("doom_loop", "aborted"), ("error", "failed")),
        ),
        detectors=_guards(
            Guard(
                detector=RepeatStreak("canonical"),
                ladder=((3, "nudge"), (5, "stop")),
                check="call",
                scope="session",
            ),
            Guard(detector=ErrorStreak(), ladder=((6, "stop"),)),
        ),
        finish=Finish(tools=("attempt_completion",), fatal_reasons=("length",)),
        execution=Execution(calls="one_per_message"),
    ),
    Policy(
        name="roo",
        about=About(
            source="Roo Code, src/core/tools/ToolRepetitionDetector.ts and Task.ts",
            loop_style="while; every reply must use a tool",
            finish_guard="attempt_completion only",
            weakness="a plain answer is a mistake; the user is asked, not the run stopped",
        ),
        cap=Cap(zero="unlimited"),
        detectors=_guards(
            Guard(
                detector=RepeatStreak("canonical"),
                ladder=((4, "block"),),
                check="call",
                rearm="fire",
                block_asks=True,
            ),
            Guard(detector=IdleStreak(), ladder=((4, "ask"),), reason="error_streak", rearm="fire"),
        ),
        finish=Finish(
            conditions=(),
            tools=("attempt_completion",),
            idle_prompt="You used no tool. Call one, or attempt_completion if the work is done.",
        ),
        execution=Execution(calls="one_per_message"),
    ),
    Policy(
        name="autogpt",
        about=About(
            source="AutoGPT classic, autogpt/app/main.py: cycles_remaining, three invalid outputs",
            loop_style="while with max_iterations",
            finish_guard="count only: the finish command, or no cycles left",
            weakness="counts, does not look at content",
        ),
        cap=Cap(counts="actions", zero="unlimited"),
        detectors=_guards(_THREE_IDLE),
        finish=Finish(conditions=(), tools=("finish",), idle="again"),
        execution=Execution(calls="one_per_message"),
        inputs=Inputs(queued="kept"),
    ),
    Policy(
        name="inspect_react",
        order=("token_budget", "cost_budget", "max_steps", "time_budget"),
        about=About(
            source="Inspect, src/inspect_ai/agent/_react.py and its sample limits",
            loop_style="while true until submit or a limit",
            finish_guard="submit, called without an error",
            weakness="the response that breaks the limit is paid and dropped; the sample still counts as a success",
            own_words=(
                ("stuck", "success"),
                ("error", "error"),
                ("step_cap", "success, limit turn"),
                ("token_budget", "success, limit token"),
                ("cost_budget", "success, limit cost"),
                ("time_budget", "success, limit time"),
                ("finished", "success"),
            ),
        ),
        cap=Cap(check="response", zero="plain"),
        budgets=Budgets(after="exceeded"),
        detectors=_guards(Guard(detector=FinishStreak("content_filter"), ladder=((3, "stop"),), check="response")),
        finish=Finish(
            conditions=(),
            tools=("submit",),
            idle_prompt="Go on with the next step. If the work is finished, call submit with the answer.",
            final_reasons=("model_length",),
        ),
        execution=Execution(calls="sequence", tool_failures="unexpected_fatal"),
    ),
    Policy(
        name="pydantic_ai",
        order=("guards", "max_steps", "tool_budget", "token_budget", "cost_budget"),
        about=About(
            source="pydantic-ai, pydantic_ai/usage.py: UsageLimits (request_limit = 50)",
            loop_style="graph: request, handle response, tools, again",
            finish_guard="a text that is a valid output",
            weakness="raises at the limit, and the caller loses what was paid for",
            own_words=(
                ("step_cap", "UsageLimitExceeded"),
                ("tool_budget", "UsageLimitExceeded"),
                ("token_budget", "UsageLimitExceeded"),
                ("cost_budget", "UsageLimitExceeded"),
                ("error_streak", "UnexpectedModelBehavior"),
                ("error, ModelError", "OutputTokenLimitExceeded"),
            ),
        ),
        cap=Cap(max_steps=50, zero="plain"),
        budgets=Budgets(batch="reject", before="exceeded", after="exceeded"),
        detectors=_guards(
            Guard(detector=Detections(IdleStreak(), 1), ladder=((2, "stop"),), reason="error_streak"),
            Guard(detector=ToolErrors(), ladder=((2, "stop"),)),
        ),
        finish=Finish(conditions=("no_calls", "has_text"), fatal_reasons=("length",), fatal_if="empty", idle="again"),
        execution=Execution(tool_failures="unexpected_fatal"),
        inputs=Inputs(queued="kept"),
    ),
    Policy(
        name="mini_swe_agent",
        order=("guards", "max_steps", "cost_budget", "time_budget"),
        about=About(
            source="mini-swe-agent v2, minisweagent/agents/default.py: step_limit 0 (off), cost_limit $3, wall time 0",
            loop_style="while true: query, run, observe",
            finish_guard="the submission marker, here the tool submit",
            weakness="no wrap-up, no detector",
            own_words=(
                ("step_cap", "LimitsExceeded"),
                ("cost_budget", "LimitsExceeded"),
                ("time_budget", "TimeExceeded"),
                ("error_streak", "RepeatedFormatError"),
                ("finished", "Submitted"),
            ),
        ),
        cap=Cap(zero="unlimited"),
        budgets=Budgets(cost=3.0),
        detectors=_guards(_THREE_IDLE),
        finish=Finish(
            conditions=(),
            tools=("submit",),
            batch="until",
            idle_prompt="No action was found in the response. Give exactly one.",
        ),
        execution=Execution(unknown_tools="rejected", calls="sequence"),
        inputs=Inputs(queued="kept"),
    ),
    Policy(
        name="swe_agent",
        order=("cost_budget", "max_steps", "guards"),
        about=About(
            source="SWE-agent, sweagent/agent/agents.py and models.py: $3 an instance, calls off, three requeries",
            loop_style="while not done: one action, with bounded requeries",
            finish_guard="the submission, here the tool submit",
            weakness="the response that breaks the limit is paid and dropped",
            own_words=(
                ("step_cap", "submitted (exit_cost)"),
                ("cost_budget", "submitted (exit_cost)"),
                ("error_streak", "submitted (exit_format)"),
                ("error_streak, timeout_streak", "submitted (exit_command_timeout)"),
                ("finished", "submitted"),
            ),
        ),
        cap=Cap(check="response", zero="unlimited"),
        budgets=Budgets(cost=3.0, before="unchecked", after="exceeded"),
        detectors=_guards(
            _THREE_IDLE,
            Guard(detector=TimeoutStreak(), ladder=((3, "stop"),)),
        ),
        finish=Finish(
            conditions=(), tools=("submit",), idle_prompt="The response could not be parsed: give exactly one action."
        ),
        execution=Execution(calls="exactly_one"),
        inputs=Inputs(queued="kept"),
        wrap_up=WrapUp(summary="static"),
    ),
    Policy(
        name="openhands",
        order=("cost_budget", "max_steps", "guards"),
        about=About(
            source="OpenHands software-agent-sdk, conversation/impl/local_conversation.py and stuck_detector.py",
            loop_style="while true under a lock; a status machine",
            finish_guard="a text without tool calls, or finish",
            weakness="compares thoughts too: other words hide a loop",
            own_words=(
                ("step_cap", "MaxIterationsReached"),
                ("cost_budget", "MaxBudgetReached"),
                ("stuck", "STUCK"),
                ("error_streak", "STUCK"),
                ("finished", "FINISHED"),
            ),
        ),
        cap=Cap(max_steps=500, zero="plain"),
        detectors=_guards(
            Guard(detector=ActionStreak("repeating"), ladder=((4, "stop"),)),
            Guard(detector=ActionStreak("failing"), ladder=((3, "nudge"), (4, "stop"))),
            Guard(detector=IdleStreak(), ladder=((3, "stop"),)),
            Guard(detector=ActionStreak("alternating"), ladder=((6, "stop"),)),
        ),
        finish=Finish(
            conditions=("no_calls", "has_text"),
            tools=("finish",),
            idle_prompt="Your reply holds neither text nor a tool call. Use a tool, or finish.",
        ),
        execution=Execution(calls="sequence"),
    ),
    Policy(
        name="openhands_classic",
        order=("guards", "max_steps", "cost_budget"),
        about=About(
            source="OpenHands classic, openhands/controller/agent_controller.py and stuck.py",
            loop_style="event-driven controller, one action a step",
            finish_guard="finish, or a message to the user",
            weakness="kills agents that wait for a long process (issues 5355, 10350)",
            own_words=(("step_cap", "ERROR"), ("cost_budget", "ERROR"), ("stuck", "STUCK"), ("error_streak", "STUCK")),
        ),
        cap=Cap(max_steps=500, zero="plain"),
        continues=Continues(times=None, by="ask"),
        detectors=_guards(
            Guard(detector=ActionStreak("repeating"), ladder=((4, "stop"),)),
            Guard(detector=ActionStreak("failing"), ladder=((3, "stop"),)),
            Guard(detector=IdleStreak(), ladder=((3, "stop"),)),
            Guard(detector=ActionStreak("alternating"), ladder=((6, "stop"),)),
        ),
        finish=Finish(tools=("finish",)),
        execution=Execution(calls="sequence"),
    ),
    Policy(
        name="gemini_cli",
        about=About(
            source="Gemini CLI, packages/core/src/core/client.ts and services/loopDetectionService.ts; 0.61.0, run: "
            "docs/cli_conformance.md",
            loop_style="recursive generator; tool results come back as new turns",
            finish_guard="no pending calls, and the user is next",
            weakness="a second detection ends the prompt, in a pipeline with exit code 0 and no text (issue 19953)",
            own_words=(("step_cap", "MaxSessionTurns"), ("stuck", "LoopDetected")),
        ),
        cap=Cap(zero="plain"),
        detectors=_guards(
            Guard(
                detector=Detections(Cycle("ordered"), 5),
                ladder=((1, "nudge"), (2, "stop")),
                check="call",
                nudge_executes=False,
            ),
            Guard(detector=RepeatedText(), ladder=((1, "nudge"), (2, "stop"))),
        ),
    ),
    Policy(
        name="gemini_subagent",
        order=("max_steps", "time_budget"),
        about=About(
            source="Gemini CLI, packages/core/src/agents/local-executor.ts: 30 turns, 10 minutes, one grace turn",
            loop_style="while true: check, request, run tools",
            finish_guard="complete_task only",
            weakness="a plain answer is a violation of the protocol",
            own_words=(
                ("step_cap", "MAX_TURNS"),
                ("time_budget", "TIMEOUT"),
                ("error_streak", "ERROR_NO_COMPLETE_TASK_CALL"),
                ("finished", "GOAL"),
            ),
        ),
        cap=Cap(max_steps=30, zero="plain"),
        last_step=LastStep(
            action="grace",
            prompt="You have been stopped. Call complete_task now with what you have; call nothing else.",
        ),
        budgets=Budgets(seconds=600.0),
        finish=Finish(conditions=(), tools=("complete_task",), idle="grace"),
    ),
    Policy(
        name="autogen",
        about=About(
            source="AutoGen AssistantAgent: max_tool_iterations = 1, reflect_on_tool_use off",
            loop_style="bounded for-loop inside one reply",
            finish_guard="a response without tool calls, or no iterations left",
            weakness="by default no model ever sees the last results",
            own_words=(("step_cap", "normal response"), ("finished", "normal response")),
        ),
        cap=Cap(max_steps=1, zero="invalid"),
        inputs=Inputs(queued="kept"),
        wrap_up=WrapUp(summary="static"),
    ),
    Policy(
        name="smolagents",
        about=About(
            source="smolagents, src/smolagents/agents.py: max_steps = 20",
            loop_style="ReAct steps; the memory is rewritten for each",
            finish_guard="final_answer",
            weakness="the wrap-up bypasses final_answer (issue 825)",
            own_words=(("step_cap", "max_steps_error"), ("finished", "success")),
        ),
        cap=Cap(max_steps=20, zero="default"),
        finish=Finish(
            conditions=(),
            tools=("final_answer",),
            batch="alone",
            idle_prompt="The response could not be parsed for a tool call. Call a tool, or final_answer.",
        ),
        inputs=Inputs(queued="kept"),
        wrap_up=WrapUp(summary="model"),
    ),
    Policy(
        name="ai_sdk",
        about=About(
            source="Vercel AI SDK, ToolLoopAgent: stopWhen isStepCount(20); generateText stops after 1",
            loop_style="do-while over steps",
            finish_guard="no calls, or a stop condition",
            weakness="no calls is an implicit stop that no condition can override (issue 8544)",
            own_words=(("step_cap", "tool-calls"), ("finished", "stop")),
        ),
        cap=Cap(max_steps=20, zero="unlimited"),
        inputs=Inputs(queued="kept"),
    ),
    Policy(
        name="langgraph_react",
        about=About(
            source="LangGraph, prebuilt/chat_agent_executor.py (create_react_agent): recursion_limit 10007",
            loop_style="graph: model and tools in turn, each a superstep",
            finish_guard="a response without tool calls",
            weakness="an apology counts as a success (issue 5548)",
            own_words=(
                ("step_cap, even cap", "success"),
                ("step_cap, odd cap", "GraphRecursionError"),
                ("error, ToolError", "ToolException"),
                ("finished", "success"),
            ),
        ),
        cap=Cap(max_steps=10_007, counts="supersteps", check="response", zero="invalid"),
        execution=Execution(tool_failures="fatal"),
        inputs=Inputs(queued="kept"),
        wrap_up=WrapUp(summary="static", static_summary="An answer would need more steps."),
    ),
    Policy(
        name="langchain_agent",
        about=About(
            source="LangChain 1.4, langchain/agents/factory.py (create_agent): recursion_limit 9999",
            loop_style="graph: model and tools in turn, each a superstep",
            finish_guard="a response without tool calls",
            weakness="raises at the limit, and the state is lost without a checkpointer",
            own_words=(
                ("step_cap", "GraphRecursionError"),
                ("error, ToolError", "ToolException"),
                ("finished", "success"),
            ),
        ),
        cap=Cap(max_steps=9_999, counts="supersteps", check="boundary", zero="invalid"),
        execution=Execution(tool_failures="fatal"),
        inputs=Inputs(queued="kept"),
    ),
    Policy(
        name="langchain_middleware",
        order=("max_steps", "tool_budget"),
        about=About(
            source="LangChain 1.4, langchain/agents/middleware: create_agent with ModelCallLimitMiddleware and "
            "ToolCallLimitMiddleware, both with run_limit and exit_behavior='end'",
            loop_style="graph: limit, model, limit and tools in turn",
            finish_guard="a response without tool calls",
            weakness="a limit returns like a success, with a text in the name of the model",
            own_words=(
                ("step_cap", "success"),
                ("tool_budget", "success"),
                ("error, ToolError", "ToolException"),
                ("finished", "success"),
            ),
        ),
        cap=Cap(zero="plain"),
        budgets=Budgets(batch="reject"),
        execution=Execution(tool_failures="fatal"),
        inputs=Inputs(queued="kept"),
        wrap_up=WrapUp(summary="static", static_summary="Model call limits exceeded."),
    ),
    Policy(
        name="openai_agents",
        about=About(
            source="openai-agents, src/agents/run.py: max_turns = 10",
            loop_style="while true: a turn, then tools, a handoff or the output",
            finish_guard="an output of the right type, without tool calls",
            weakness="the limit raises; what was done is in the exception only",
            own_words=(
                ("step_cap", "MaxTurnsExceeded"),
                ("error, ModelError", "ModelBehaviorError"),
                ("finished", "final_output"),
            ),
        ),
        cap=Cap(max_steps=10, zero="plain"),
        execution=Execution(unknown_tools="fatal"),
        inputs=Inputs(queued="kept"),
    ),
    Policy(
        name="goose",
        about=About(
            source="goose, crates/goose/src/agents/agent.rs: 1000 turns; REP-002 of one stored version",
            loop_style="streaming loop with hooks and steering",
            finish_guard="no calls, and nothing new from the user",
            weakness="its own rule on repeated calls is off",
        ),
        cap=Cap(max_steps=1000, zero="plain"),
        detectors=_guards(
            Guard(detector=SameError(), ladder=((3, "block"),), check="call", rearm="fire"),
            Guard(detector=IdleStreak(), ladder=((4, "stop"),), reason="error_streak"),
        ),
        finish=Finish(conditions=("no_calls", "has_text", "no_new_input"), idle="again"),
    ),
    Policy(
        name="crush",
        order=(),
        compaction=Compaction(reserve=20_000, small_window=200_000, small_share=0.2),
        about=About(
            source="crush, internal/agent/loop_detection.go and agent.go",
            loop_style="library loop with stop conditions and a queue",
            finish_guard="a response without tool calls, or a stop condition",
            weakness="looks after ten steps only",
        ),
        detectors=_guards(Guard(detector=StepRepeats(10), ladder=((6, "stop"),))),
    ),
    Policy(
        name="openrouter",
        about=About(
            source="OpenRouter agent SDK, docs agent-sdk/call-model: doom-loop-detection, stop-conditions",
            loop_style="tool loop with stop conditions and a ladder",
            finish_guard="a response without tool calls, or a stop condition",
            weakness="other arguments evade it; results are not looked at",
        ),
        cap=Cap(zero="plain"),
        last_step=LastStep(action="tool_choice_none", in_cap=False),
        detectors=_guards(
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
        about=About(
            source="the loop that opencode's study warns of: break on finish_reason == stop",
            loop_style="while true; believes the finish reason",
            finish_guard="the finish reason stop, whatever else is in the response",
            weakness="drops tool calls when a provider reports stop too early",
        ),
        finish=Finish(conditions=("reason_stop",), idle="again"),
    ),
)

policies: Final = Presets({policy.name: policy for policy in _PRESETS})
"""The presets by name, as `bl.policies`; docs/harnesses.md compares them."""


def get_policy(policy: str | Policy) -> Policy:
    """The policy itself, or the preset with that name; a `SettingError` if there is none."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str) and policy in policies:
        return policies[policy]
    raise SettingError(f"there is no policy {policy!r}{near(policy, sorted(policies), 'presets', every=True)}")


def identity_under(
    policy: Policy | str | None, identity: Identities | None, exempt: Iterable[str] = ()
) -> Identities | None:
    """The identity of calls without the exempt tools; without an identity, that of the policy, or `canonical`.

    Example:
        >>> identity_under("boocode", None, ["poll"])
        {'*': 'ordered', 'poll': None}
    """
    if not exempt:
        return identity
    return exempting(identity or (get_policy(policy).detectors.identity if policy else "canonical"), exempt)


def fixed_turns(n: int, *, reminder: bool = True) -> Policy:
    """A limit on turns; every request reminds the model of the turns that are left.

    Source: arXiv 2510.16786. It caps runs at the 25th, 50th or 75th percentile of the turns of unlimited runs; the cap
    at the 75th percentile saves 24 to 68% of the cost with little loss of success.

    Args:
        n: The cap on steps, at least 1.
        reminder: Whether the model gets reminders. What it does with them, a recording without them does not show.

    Returns:
        The policy.

    Raises:
        SettingError: if n is not an integer >= 1.

    Example:
        >>> import boolab as bl
        >>> bl.fixed_turns(20).last_step.reminder
        'turns_left'
    """
    return Policy(
        name=f"fixed_turns({_positive('fixed_turns', n)}{'' if reminder else ', reminder=False'})",
        about=About(
            source=f"arXiv 2510.16786: fixed turn limits, with{'' if reminder else 'out'} a reminder of the turns left",
            loop_style="while under the cap",
            finish_guard="a response without tool calls, or task_done",
            weakness="one cap for easy and hard tasks",
        ),
        cap=Cap(max_steps=n, zero="invalid"),
        last_step=LastStep(reminder="turns_left" if reminder else "none"),
        finish=Finish(tools=("task_done",)),
    )


def dynamic_turns(n: int, extend: int, *, unless: StopRule | None = None, reminder: bool = True) -> Policy:
    """A limit on turns that is extended once, for the runs that need it.

    When a run reaches the cap and `unless` is false, the cap grows by `extend` and the model gets a message. The second
    time the cap ends the run. Source: arXiv 2510.16786, which saves another 12 to 24% over a fixed limit. The paper
    gives no values for the two limits: choose them with `bl.counterfactual`. The condition is not the paper's, in which
    every run that has not finished is extended.

    With `reminder=False` the model gets no message and no reminder of the turns left. Then recordings show what these
    limits do. Without a condition they do the same as a cap of `n + extend`.

    Args:
        n: The first cap on steps, at least 1.
        extend: The number of steps by which it grows, at least 1.
        unless: A stop rule: a run for which it is true at the first cap is not extended.
        reminder: Whether the model gets reminders, and a message when the cap grows.

    Returns:
        The policy.

    Raises:
        SettingError: if one of the limits is not an integer >= 1, or `unless` is not a rule.

    Example:
        >>> import boolab as bl
        >>> bl.dynamic_turns(20, 10).continues.adds
        10
        >>> look = {"tool_calls": [{"name": "ls"}], "repeat": 4}
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]), stop=bl.max_steps(9))
        >>> limits = bl.dynamic_turns(2, 2, unless=bl.doom_loop(3), reminder=False)
        >>> bl.counterfactual(run, policy=limits)[["outcome", "stop_step", "stop_reason"]].values.tolist()
        [['truncated', 4, 'step_cap']]
    """
    fixed = fixed_turns(n, reminder=reminder)
    more = ("" if unless is None else f", unless={unless}") + ("" if reminder else ", reminder=False")
    return fixed.vary(
        name=f"dynamic_turns({n}, {_positive('dynamic_turns', extend)}{more})",
        about={
            "source": "arXiv 2510.16786: dynamic turn limits",
            "loop_style": "while under a cap that is extended once",
            "weakness": "both limits come from earlier runs",
        },
        continues={"times": 1, "by": "loop", "adds": extend, "message": reminder, "unless": unless},
    )


def _positive(what: str, n: object) -> int:
    if not is_whole(n) or n < 1:
        msg = f"{what}: {repr_of(n)} is not accepted; expected an integer >= 1"
        raise SettingError(msg)
    return n
