"""What a correct reader reports for each of the sample trajectories, counted apart from the readers.

`tests/readers/derive.py` counted the numbers from the files, by plain code of its own; where a note says so, what is
right was chosen by reading the file, and the note names the alternative (the doubtful ones begin with AMBIGUOUS).

- A step is one response of a model. A call with a result is in `calls`, one without is in `dropped`.
- A turn begins at a message of the user's own that at least one step answers; steps before any message are a turn too.
- `errors` counts the calls that failed: flagged as an error, or left with an exit code other than 0. It is None if the
  log does not say of some call; where an exit code stands only in text, at the head of which the harness put it, the
  text is read unless there is a flag as well.
- Input is with everything cached, output with the reasoning, summed over the steps; None if a step has no usage.
- Sums over nothing are 0. `successes` is None if no run has a label.
- Without a format there is nothing to read: the note begins with `refused` (an error), `belongs to` (a part of another
  log) or `no log` (neither a log nor an error).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Expected(NamedTuple):
    """What to expect of one file: the numbers are over all of its runs."""

    path: str
    format: str | None
    runs: int | None = None
    steps: int | None = None
    calls: int | None = None
    errors: int | None = None
    dropped: int | None = None
    turns: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    successes: int | None = None
    note: str = ""


EXPECTED: Final = (
    Expected(
        "SOURCES.md",
        None,
        note="no log: where the files come from",
    ),
    Expected(
        "agent-sessions/antigravity/cli_schema_drift.jsonl",
        None,
        note="refused: Antigravity's own lines (step_index, source, type)",
    ),
    Expected(
        "agent-sessions/antigravity/cli_small.jsonl",
        None,
        note="refused: Antigravity's own lines (step_index, source, type)",
    ),
    Expected(
        "agent-sessions/antigravity/small.md",
        None,
        note="refused: a text of Antigravity's, no log",
    ),
    Expected(
        "agent-sessions/claude/small.jsonl",
        "claude_code",
        runs=3,
        steps=5,
        calls=2,
        errors=0,
        dropped=1,
        turns=4,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: lines of many sessions put together, most with trimmed ids. Runs are the side chain, the main"
            " line and the lines with an agentId (as one run: 1 run, 4 steps); requestId stands in for a missing "
            "message id (else 6 steps); a second result without an id has no call; the synthetic line is no step"
        ),
    ),
    Expected(
        "agent-sessions/claude/subagent/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl",
        "claude_code",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=1,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="the subagent's file is not counted here (a reader that follows it reports 2 runs); no ids, no usage",
    ),
    Expected(
        "agent-sessions/claude/subagent/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f/subagents/agent-a0ad4f44468bdf20d.jsonl",
        "claude_code",
        runs=1,
        steps=1,
        calls=1,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="call and result have no ids: paired by position",
    ),
    Expected(
        (
            "agent-sessions/claude/subagent/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f/subagents/"
            "agent-a0ad4f44468bdf20d.meta.json"
        ),
        None,
        note="belongs to agent-a0ad4f44468bdf20d.jsonl",
    ),
    Expected(
        "agent-sessions/codex/small.jsonl",
        "codex",
        runs=1,
        steps=7,
        calls=7,
        errors=None,
        dropped=1,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: from line 27 on lines of many sessions put together, seven session_meta lines; read as one "
            "run. A web search and an image generation are calls that ran on the server and have no output (else 5 "
            "calls, 3 dropped)"
        ),
    ),
    Expected(
        "agent-sessions/copilot/large.jsonl",
        None,
        note="refused: Copilot's own events (session.start, assistant.message with toolRequests)",
    ),
    Expected(
        "agent-sessions/copilot/schema_drift.jsonl",
        None,
        note="refused: Copilot's own events (session.start, assistant.message with toolRequests)",
    ),
    Expected(
        "agent-sessions/copilot/small.jsonl",
        None,
        note="refused: Copilot's own events (session.start, assistant.message with toolRequests)",
    ),
    Expected(
        "agent-sessions/copilot/subdir_v1/aaaabbbb-1111-2222-3333-ccccddddeeee/events.jsonl",
        None,
        note="refused: Copilot's own events (session.start, assistant.message with toolRequests)",
    ),
    Expected(
        "agent-sessions/cursor/large.jsonl",
        None,
        note="refused: Cursor's own lines: a role beside a message without one, calls without ids",
    ),
    Expected(
        "agent-sessions/cursor/schema_drift.jsonl",
        None,
        note="refused: Cursor's own lines: a role beside a message without one, calls without ids",
    ),
    Expected(
        "agent-sessions/cursor/small.jsonl",
        None,
        note="refused: Cursor's own lines: a role beside a message without one, calls without ids",
    ),
    Expected(
        "agent-sessions/cursor/subagent/parent.jsonl",
        None,
        note="refused: Cursor's own lines: a role beside a message without one, calls without ids",
    ),
    Expected(
        "agent-sessions/cursor/subagent/subagents/child.jsonl",
        None,
        note="refused: Cursor's own lines: a role beside a message without one, calls without ids",
    ),
    Expected(
        "agent-sessions/droid/session_store_large.jsonl",
        None,
        note=(
            "refused: Droid's own store (session_start, then messages in an envelope); neither pi's `session` nor "
            "bare Anthropic messages"
        ),
    ),
    Expected(
        "agent-sessions/droid/session_store_schema_drift.jsonl",
        None,
        note=(
            "refused: Droid's own store (session_start, then messages in an envelope); neither pi's `session` nor "
            "bare Anthropic messages"
        ),
    ),
    Expected(
        "agent-sessions/droid/session_store_small.jsonl",
        None,
        note=(
            "refused: Droid's own store (session_start, then messages in an envelope); neither pi's `session` nor "
            "bare Anthropic messages"
        ),
    ),
    Expected(
        "agent-sessions/droid/stream_json_large.jsonl",
        None,
        note="refused: Droid's own stream (tool_call, tool_result, completion lines)",
    ),
    Expected(
        "agent-sessions/droid/stream_json_schema_drift.jsonl",
        None,
        note="refused: Droid's own stream (tool_call, tool_result, completion lines)",
    ),
    Expected(
        "agent-sessions/droid/stream_json_small.jsonl",
        None,
        note="refused: Droid's own stream (tool_call, tool_result, completion lines)",
    ),
    Expected(
        "agent-sessions/grok/chat_history.jsonl",
        None,
        note="refused: Grok's own lines: `type` for the role, calls without a `function`",
    ),
    Expected(
        "agent-sessions/grok/subagent/chat_history.jsonl",
        None,
        note="refused: Grok's own lines: `type` for the role, calls without a `function`",
    ),
    Expected(
        "agent-sessions/grok/subagent/summary.json",
        None,
        note="belongs to chat_history.jsonl, which is refused",
    ),
    Expected(
        "agent-sessions/grok/summary.json",
        None,
        note="belongs to chat_history.jsonl, which is refused",
    ),
    Expected(
        "agent-sessions/hermes/large.json",
        "openai_chat",
        runs=1,
        steps=2,
        calls=1,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "Hermes, but `messages` are OpenAI's chat messages; the last one, role session_meta, is skipped. Refusing"
            " is the alternative"
        ),
    ),
    Expected(
        "agent-sessions/hermes/schema_drift.json",
        "openai_chat",
        runs=1,
        steps=1,
        calls=1,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "Hermes, but `messages` are OpenAI's chat messages; finish_reason `error` stands on a tool message, which"
            " the format does not know: errors stay unknown (else 1)"
        ),
    ),
    Expected(
        "agent-sessions/hermes/small.json",
        "openai_chat",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="Hermes, but `messages` are OpenAI's chat messages",
    ),
    Expected(
        "agent-sessions/kimi/assistant_tools.jsonl",
        None,
        note="refused: Kimi's own wire lines (turn.prompt, context.append_loop_event)",
    ),
    Expected(
        "agent-sessions/kimi/assistant_tools.state.json",
        None,
        note="belongs to assistant_tools.jsonl, which is refused",
    ),
    Expected(
        "agent-sessions/kimi/small.jsonl",
        None,
        note="refused: Kimi's own wire lines (turn.prompt, context.append_loop_event)",
    ),
    Expected(
        "agent-sessions/kimi/state.json",
        None,
        note="belongs to small.jsonl, which is refused",
    ),
    Expected(
        "agent-sessions/kimi/subagent_agent-0.jsonl",
        None,
        note="refused: Kimi's own wire lines (turn.prompt, context.append_loop_event)",
    ),
    Expected(
        "agent-sessions/openclaw/large.jsonl",
        "pi",
        runs=1,
        steps=3,
        calls=2,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="OpenClaw writes pi's format, without usage and stopReason, a result's content as a text",
    ),
    Expected(
        "agent-sessions/openclaw/schema_drift.jsonl",
        "pi",
        runs=1,
        steps=1,
        calls=1,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "OpenClaw writes pi's format, without usage and stopReason, a result's content as a text; a message of "
            "role system is no turn, a `compact` line is skipped"
        ),
    ),
    Expected(
        "agent-sessions/openclaw/small.jsonl",
        "pi",
        runs=1,
        steps=1,
        calls=1,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="OpenClaw writes pi's format, without usage and stopReason, a result's content as a text",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/message/s_stage0_large/msg_0001.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/message/s_stage0_large/msg_0002.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/message/s_stage0_large/msg_0003.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/message/s_stage0_large/msg_0004.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/message/s_stage0_small/msg_0001.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_small.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/message/s_stage0_small/msg_0002.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_small.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/migration",
        None,
        note="no log: the version of the storage",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_1/001.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_1/002.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_1/003.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_1/004.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_1/005.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_1/006.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_1/007.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_1/008.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_large_2/001.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_small/001.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_small.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_assistant_small/002.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_small.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_user_large_1/001.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_user_large_2/001.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_large.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/part/m_user_small/001.json",
        None,
        note="belongs to session/proj_test/ses_s_stage0_small.json",
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/session/proj_test/ses_s_stage0_large.json",
        "opencode",
        runs=1,
        steps=2,
        calls=1,
        errors=1,
        dropped=0,
        turns=2,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "exit code 1 with status completed is an error (else 0); the aborted response ran its call and has usage:"
            " a step; the second response has no usage: tokens unknown (120 and 16 known)"
        ),
    ),
    Expected(
        "agent-sessions/opencode/storage_v2/session/proj_test/ses_s_stage0_small.json",
        "opencode",
        runs=1,
        steps=1,
        calls=1,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="parts without sessionID and messageID belong to their folder's message",
    ),
    Expected(
        "agent-sessions/pi/small.jsonl",
        "pi",
        runs=1,
        steps=2,
        calls=0,
        errors=0,
        dropped=0,
        turns=2,
        input_tokens=24,
        output_tokens=14,
        successes=None,
        note="compaction lines are neither steps nor turns",
    ),
    Expected(
        "agent-sessions/qwen/019f0000-0000-7000-8000-000000000001.jsonl",
        None,
        note="refused: Qwen's own lines: Claude Code's keys around Gemini's parts",
    ),
    Expected(
        "agent-sessions/qwen/019f0000-0000-7000-8000-000000000002.jsonl",
        None,
        note="refused: Qwen's own lines: Claude Code's keys around Gemini's parts",
    ),
    Expected(
        "agent-sessions/qwen/019f0000-0000-7000-8000-000000000004.jsonl",
        None,
        note="refused: Qwen's own lines: Claude Code's keys around Gemini's parts",
    ),
    Expected(
        "agent-sessions/qwen/019f0000-0000-7000-8000-000000000005.jsonl",
        None,
        note="refused: Qwen's own lines: Claude Code's keys around Gemini's parts; two objects glued on one line",
    ),
    Expected(
        "agent-sessions/qwen/019f0000000070008000000000000003.jsonl",
        None,
        note="refused: Qwen's own lines: Claude Code's keys around Gemini's parts",
    ),
    Expected(
        "agent-sessions/qwen/system_telemetry.jsonl",
        None,
        note="refused: Qwen's own lines: Claude Code's keys around Gemini's parts",
    ),
    Expected(
        "agtrace/samples/claude_agent.jsonl",
        "claude_code",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=487,
        output_tokens=130,
        successes=None,
        note="a subagent's file: its parent is not in the data; the prompt `Warmup` is a turn",
    ),
    Expected(
        "agtrace/samples/claude_session.jsonl",
        "claude_code",
        runs=1,
        steps=6,
        calls=4,
        errors=1,
        dropped=0,
        turns=2,
        input_tokens=98785,
        output_tokens=844,
        successes=None,
        note="no is_error means no error; caveat, command and its output at the end are no turns",
    ),
    Expected(
        "agtrace/samples/codex_parent_with_spawns.jsonl",
        "codex",
        runs=1,
        steps=2,
        calls=0,
        errors=0,
        dropped=0,
        turns=2,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "only events, no response items: they are read instead: two agent messages are two steps (else 1 run "
            "without steps)"
        ),
    ),
    Expected(
        "agtrace/samples/codex_session.jsonl",
        "codex",
        runs=1,
        steps=7,
        calls=5,
        errors=2,
        dropped=0,
        turns=2,
        input_tokens=26740,
        output_tokens=408,
        successes=None,
        note=(
            "27,148 tokens in total; exit codes stand in the text only: 2 of them are 1 (errors unknown where text is"
            " not read)"
        ),
    ),
    Expected(
        "agtrace/samples/codex_subagent_matched.jsonl",
        "codex",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="only events, no response items: they are read instead (else no run)",
    ),
    Expected(
        "agtrace/samples/codex_subagent_matched_2.jsonl",
        "codex",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="only events, no response items: they are read instead (else no run)",
    ),
    Expected(
        "agtrace/samples/codex_subagent_unmatched.jsonl",
        "codex",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="only events, no response items: they are read instead (else no run)",
    ),
    Expected(
        "agtrace/samples/gemini_session.json",
        "gemini",
        runs=1,
        steps=7,
        calls=5,
        errors=0,
        dropped=0,
        turns=2,
        input_tokens=67273,
        output_tokens=677,
        successes=None,
        note="every status is success; one shell command left with code 1, in its text only (else 1 error)",
    ),
    Expected(
        "agtrace/samples/rollout-parent-019b88e0.jsonl",
        "codex",
        runs=1,
        steps=0,
        calls=0,
        errors=0,
        dropped=0,
        turns=0,
        input_tokens=0,
        output_tokens=0,
        successes=None,
        note="a prompt without a response: 1 run of 0 steps; sums over nothing are 0",
    ),
    Expected(
        "agtrace/samples/rollout-subagent-019b88e5.jsonl",
        "codex",
        runs=1,
        steps=0,
        calls=0,
        errors=0,
        dropped=0,
        turns=0,
        input_tokens=0,
        output_tokens=0,
        successes=None,
        note="a prompt without a response: 1 run of 0 steps; sums over nothing are 0",
    ),
    Expected(
        "atif/README.md",
        None,
        note="no log: says where the file beside it comes from",
    ),
    Expected(
        "atif/nemo_relay_atif_v1.7_real_redacted.json",
        "atif",
        runs=1,
        steps=2,
        calls=4,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: `source` is redacted but for step 6; step 3 has llm_call_count and metrics: a response too "
            "(else 1 step, 1 turn). All call ids are the same word: paired by position. Step 6 has no metrics: tokens"
            " unknown (8,983 and 7 known)"
        ),
    ),
    Expected(
        "claude-code/claude-code-log/representative_messages.jsonl",
        "claude_code",
        runs=1,
        steps=5,
        calls=2,
        errors=0,
        dropped=0,
        turns=3,
        input_tokens=218,
        output_tokens=445,
        successes=None,
        note="the last prompt has no response: no turn",
    ),
    Expected(
        "claude-code/claude-code-log/session_b.jsonl",
        "claude_code",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=20,
        output_tokens=35,
        successes=None,
        note="the last prompt has no response: no turn",
    ),
    Expected(
        "claude-code/simonw/sample_session.json",
        "claude_code",
        runs=1,
        steps=15,
        calls=12,
        errors=1,
        dropped=0,
        turns=5,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "Claude Code's lines in one object under `loglines`, without ids: each is a response (refusing is the "
            "alternative)"
        ),
    ),
    Expected(
        "claude-code/simonw/sample_session.jsonl",
        "claude_code",
        runs=1,
        steps=3,
        calls=2,
        errors=0,
        dropped=0,
        turns=2,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="lines without message id and request id: each is a response",
    ),
    Expected(
        "claude-code/spotter/short.jsonl",
        "claude_code",
        runs=1,
        steps=1,
        calls=2,
        errors=2,
        dropped=0,
        turns=1,
        input_tokens=25353,
        output_tokens=13,
        successes=None,
        note="both calls were rejected by the user: they have a result that is an error (else 2 dropped)",
    ),
    Expected(
        "claude-code/spotter/tool_heavy.jsonl",
        "claude_code",
        runs=1,
        steps=4,
        calls=6,
        errors=0,
        dropped=0,
        turns=2,
        input_tokens=105981,
        output_tokens=212,
        successes=None,
        note="106,193 tokens in total; four results have no is_error: no errors",
    ),
    Expected(
        "cline/agentic.compaction.json",
        None,
        note="belongs to session.messages.json: the same session after a compaction (read alone: 1 run, 1 step)",
    ),
    Expected(
        "cline/basic.compaction.json",
        None,
        note=(
            "belongs to session.messages.json: the same session after a compaction (read alone: 1 run, 5 steps, 5 "
            "turns)"
        ),
    ),
    Expected(
        "cline/session.json",
        None,
        note="belongs to session.messages.json: its manifest",
    ),
    Expected(
        "cline/session.messages.json",
        "cline",
        runs=1,
        steps=16,
        calls=11,
        errors=0,
        dropped=0,
        turns=5,
        input_tokens=630254,
        output_tokens=4395,
        successes=None,
        note=(
            "inputTokens includes cacheReadTokens (the session's own total is 630,254): do not add them; no is_error "
            "means no error"
        ),
    ),
    Expected(
        "inspect/tests/analysis/test_logs/2025-05-12T20-27-36-04-00_browser.json",
        "inspect",
        runs=1,
        steps=5,
        calls=4,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=15235,
        output_tokens=281,
        successes=1,
    ),
    Expected(
        "inspect/tests/analysis/test_logs/2025-05-12T20-28-13-04-00_no-samples.json",
        "inspect",
        runs=0,
        steps=0,
        calls=0,
        errors=0,
        dropped=0,
        turns=0,
        input_tokens=0,
        output_tokens=0,
        successes=None,
        note="a whole log without samples: no runs, no error",
    ),
    Expected(
        "inspect/tests/analysis/test_logs/2025-05-12T20-28-13-04-00_popularity.json",
        "inspect",
        runs=3,
        steps=3,
        calls=0,
        errors=0,
        dropped=0,
        turns=3,
        input_tokens=192,
        output_tokens=6,
        successes=2,
    ),
    Expected(
        "inspect/tests/analysis/test_logs/2025-05-12T20-28-26-04-00_security-guide.json",
        "inspect",
        runs=3,
        steps=3,
        calls=0,
        errors=0,
        dropped=0,
        turns=3,
        input_tokens=182,
        output_tokens=49,
        successes=3,
        note="each sample's second model event is the judge's: not counted (959 and 1,033 tokens with it)",
    ),
    Expected(
        "inspect/tests/analysis/test_logs_choices/mmlu-no-summary-choices.eval",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=153,
        output_tokens=3,
        successes=0,
    ),
    Expected(
        "inspect/tests/analysis/test_logs_choices/mmlu-summary-choices.eval",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=153,
        output_tokens=3,
        successes=0,
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_formats.eval",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=66,
        output_tokens=2,
        successes=0,
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_formats.json",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=66,
        output_tokens=2,
        successes=0,
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_images.json",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=323,
        output_tokens=3,
        successes=0,
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_images_tc.json",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=323,
        output_tokens=5,
        successes=0,
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_message_deduplication.eval",
        "inspect",
        runs=1,
        steps=6,
        calls=5,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=0,
        note="no usage at all; the score is the number 0.0: labelled, no success (else no label)",
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_read_sample.eval",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=66,
        output_tokens=3,
        successes=1,
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_read_sample.json",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=66,
        output_tokens=3,
        successes=1,
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_streaming.eval",
        "inspect",
        runs=4,
        steps=4,
        calls=0,
        errors=0,
        dropped=0,
        turns=4,
        input_tokens=252,
        output_tokens=6,
        successes=3,
        note="2 samples in 2 epochs: 4 runs",
    ),
    Expected(
        "inspect/tests/log/test_eval_log/log_tool_call_error.json",
        "inspect",
        runs=1,
        steps=0,
        calls=0,
        errors=0,
        dropped=0,
        turns=0,
        input_tokens=0,
        output_tokens=0,
        successes=None,
        note=(
            "AMBIGUOUS: one sample of 11 results, no response, no call, no prompt among its messages: a run of 0 "
            "steps (else no run)"
        ),
    ),
    Expected(
        "inspect/tests/log/test_eval_log/long_log.eval",
        None,
        note="refused: no ZIP, a pointer of Git LFS",
    ),
    Expected(
        "inspect/tests/log/test_list_logs/2024-11-05T13-31-45-05-00_input-task_8zXjbRzCWrL9GXiXo2vus9.json",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=53,
        output_tokens=46,
        successes=1,
        note="two messages of the user, then one response: 1 turn; the second model event is the judge's",
    ),
    Expected(
        "inspect/tests/log/test_list_logs/2024-11-05T13-32-37-05-00_input-task_hxs4q9azL3ySGkjJirypKZ.eval",
        "inspect",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=0,
        turns=1,
        input_tokens=52,
        output_tokens=61,
        successes=1,
        note="two messages of the user, then one response: 1 turn; the second model event is the judge's",
    ),
    Expected(
        "mini-swe-agent/github_issue.traj.json",
        "mini_swe_agent",
        runs=1,
        steps=10,
        calls=10,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: a bare list of messages of mini-swe-agent's text mode (it was described as a list of strings,"
            " to be refused); refusing is the alternative, reading it as openai_chat is wrong (no calls, results as "
            "turns). The submission's result has no return code: errors unknown (2 known)"
        ),
    ),
    Expected(
        "mini-swe-agent/local.traj.json",
        "mini_swe_agent",
        runs=1,
        steps=2,
        calls=2,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: a bare list of messages of mini-swe-agent's text mode (it was described as a list of strings,"
            " to be refused); refusing is the alternative, reading it as openai_chat is wrong (no calls, results as "
            "turns). The submission's result has no return code: errors unknown (0 known)"
        ),
    ),
    Expected(
        (
            "openhands-sdk/fixtures/llm_data/llm-logs/"
            "litellm_proxy__anthropic__claude-sonnet-4-20250514-1757015025.972.json"
        ),
        "openai_chat",
        runs=1,
        steps=1,
        calls=0,
        errors=0,
        dropped=1,
        turns=1,
        input_tokens=4812,
        output_tokens=146,
        successes=None,
        note=(
            "AMBIGUOUS: a log of one request: OpenAI's messages and the `response` to them, which is the last step; "
            "its call has no result. Only the response has usage (else refused, or one step and one dropped call "
            "fewer)"
        ),
    ),
    Expected(
        (
            "openhands-sdk/fixtures/llm_data/llm-logs/"
            "litellm_proxy__anthropic__claude-sonnet-4-20250514-1757015029.090.json"
        ),
        "openai_chat",
        runs=1,
        steps=2,
        calls=1,
        errors=None,
        dropped=1,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: a log of one request: OpenAI's messages and the `response` to them, which is the last step; "
            "its call has no result. Only the response has usage; each file repeats the one before (else refused, or "
            "one step and one dropped call fewer)"
        ),
    ),
    Expected(
        (
            "openhands-sdk/fixtures/llm_data/llm-logs/"
            "litellm_proxy__anthropic__claude-sonnet-4-20250514-1757015033.222.json"
        ),
        "openai_chat",
        runs=1,
        steps=3,
        calls=2,
        errors=None,
        dropped=1,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: a log of one request: OpenAI's messages and the `response` to them, which is the last step; "
            "its call has no result. Only the response has usage; each file repeats the one before (else refused, or "
            "one step and one dropped call fewer)"
        ),
    ),
    Expected(
        (
            "openhands-sdk/fixtures/llm_data/llm-logs/"
            "litellm_proxy__anthropic__claude-sonnet-4-20250514-1757015036.544.json"
        ),
        "openai_chat",
        runs=1,
        steps=4,
        calls=3,
        errors=None,
        dropped=1,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: a log of one request: OpenAI's messages and the `response` to them, which is the last step; "
            "its call has no result. Only the response has usage; each file repeats the one before (else refused, or "
            "one step and one dropped call fewer)"
        ),
    ),
    Expected(
        (
            "openhands-sdk/fixtures/llm_data/llm-logs/"
            "litellm_proxy__anthropic__claude-sonnet-4-20250514-1757015040.416.json"
        ),
        "openai_chat",
        runs=1,
        steps=5,
        calls=4,
        errors=None,
        dropped=1,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: a log of one request: OpenAI's messages and the `response` to them, which is the last step; "
            "its call has no result. Only the response has usage; each file repeats the one before (else refused, or "
            "one step and one dropped call fewer)"
        ),
    ),
    Expected(
        (
            "openhands-sdk/fixtures/llm_data/llm-logs/"
            "litellm_proxy__anthropic__claude-sonnet-4-20250514-1757015046.707.json"
        ),
        "openai_chat",
        runs=1,
        steps=6,
        calls=5,
        errors=None,
        dropped=1,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: a log of one request: OpenAI's messages and the `response` to them, which is the last step; "
            "its call has no result. Only the response has usage; each file repeats the one before (else refused, or "
            "one step and one dropped call fewer)"
        ),
    ),
    Expected(
        "openhands-sdk/sdk/conversation/goal/fixtures/events.jsonl",
        "openhands_sdk",
        runs=1,
        steps=2,
        calls=2,
        errors=2,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "AMBIGUOUS: a result whose action is not in the file is skipped (else 3 steps); exit code 1 is an error "
            "though is_error is false (else 1); usage is given for the conversation only (107,458 and 1,347, with a "
            "response that has no event): unknown per step"
        ),
    ),
    Expected(
        "openhands/tests/runtime/trajs/basic.json",
        "openhands",
        runs=1,
        steps=2,
        calls=1,
        errors=None,
        dropped=1,
        turns=1,
        input_tokens=8132,
        output_tokens=1312,
        successes=None,
        note=(
            "the call of `finish` has no observation: dropped (else no call at all); an edit does not say whether it "
            "failed: errors unknown (0 known)"
        ),
    ),
    Expected(
        "openhands/tests/runtime/trajs/basic_gui_mode.json",
        "openhands",
        runs=1,
        steps=5,
        calls=4,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "the last message has no model_response: tokens unknown (17,297 and 2,024 known); an edit does not say "
            "whether it failed: errors unknown (1 known: exit code -1)"
        ),
    ),
    Expected(
        "openhands/tests/runtime/trajs/basic_interactions.json",
        "openhands",
        runs=1,
        steps=3,
        calls=0,
        errors=0,
        dropped=1,
        turns=3,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "the call of `finish` has no observation: dropped (else no call at all); messages have no model_response:"
            " tokens unknown"
        ),
    ),
    Expected(
        "openhands/tests/runtime/trajs/wrong_initial_state.json",
        "openhands",
        runs=1,
        steps=4,
        calls=3,
        errors=None,
        dropped=1,
        turns=1,
        input_tokens=14828,
        output_tokens=358,
        successes=None,
        note=(
            "the call of `finish` has no observation: dropped (else no call at all); a read does not say whether it "
            "failed: errors unknown (0 known)"
        ),
    ),
    Expected(
        "pi/large-session.jsonl",
        "pi",
        runs=1,
        steps=439,
        calls=373,
        errors=19,
        dropped=18,
        turns=79,
        input_tokens=47526750,
        output_tokens=83156,
        successes=None,
        note=(
            "391 calls are 373 with a result and 18 that never ran; 453 responses less 14 empty aborts; prompts "
            "answered only by an empty abort are no turns"
        ),
    ),
    Expected(
        "swe-agent/trajectories/demonstrations/function_calling_simple.traj",
        "swe_agent",
        runs=1,
        steps=5,
        calls=5,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a demonstration with `history` alone: its own assistant messages are the steps",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "human_thought__swe-bench-HumanEvalFix-python__lcb__t-0.00__p-0.95__c-4.00__install-0/humanevalfix-python-0.traj"
        ),
        "swe_agent",
        runs=1,
        steps=5,
        calls=5,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="written by a human: model_stats are 0",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "replay__marshmallow-code__marshmallow-1867__default__t-0.20__p-0.95__c-2.00__install-1___install_from_source/marshmallow-code__marshmallow-1867.traj"
        ),
        "swe_agent",
        runs=1,
        steps=14,
        calls=14,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a replayed demonstration: model_stats are 0",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "replay__marshmallow-code__marshmallow-1867__default_sys-env_cursors_window100__t-0.20__p-0.95__c-2.00__install-1/marshmallow-code__marshmallow-1867.traj"
        ),
        "swe_agent",
        runs=1,
        steps=12,
        calls=12,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a replayed demonstration: model_stats are 0",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "replay__marshmallow-code__marshmallow-1867__default_sys-env_window100__t-0.20__p-0.95__c-2.00__install-1/marshmallow-code__marshmallow-1867.traj"
        ),
        "swe_agent",
        runs=1,
        steps=11,
        calls=11,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a replayed demonstration: model_stats are 0",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "replay__marshmallow-code__marshmallow-1867__function_calling__install-1/marshmallow-code__marshmallow-1867.traj"
        ),
        "swe_agent",
        runs=1,
        steps=11,
        calls=11,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a replayed demonstration: model_stats are 0 but for api_calls",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "replay__marshmallow-code__marshmallow-1867__function_calling_replace__install-1/marshmallow-code__marshmallow-1867.traj"
        ),
        "swe_agent",
        runs=1,
        steps=11,
        calls=11,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a replayed demonstration: model_stats are 0 but for api_calls",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "replay__marshmallow-code__marshmallow-1867__function_calling_replace_from_source/marshmallow-code__marshmallow-1867.traj"
        ),
        "swe_agent",
        runs=1,
        steps=13,
        calls=13,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a replayed demonstration: model_stats are 0 but for api_calls",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "replay__marshmallow-code__marshmallow-1867__xml_sys-env_cursors_window100__t-0.20__p-0.95__c-2.00__install-1/marshmallow-code__marshmallow-1867.traj"
        ),
        "swe_agent",
        runs=1,
        steps=12,
        calls=12,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a replayed demonstration: model_stats are 0",
    ),
    Expected(
        (
            "swe-agent/trajectories/demonstrations/"
            "replay__marshmallow-code__marshmallow-1867__xml_sys-env_window100__t-0.20__p-0.95__c-2.00__install-1/marshmallow-code__marshmallow-1867.traj"
        ),
        "swe_agent",
        runs=1,
        steps=11,
        calls=11,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note="a replayed demonstration: model_stats are 0",
    ),
    Expected(
        (
            "swe-smith/tests/test_logs/trajectories/pydantic__pydantic.acb0f10f.pr_8316/"
            "pydantic__pydantic.acb0f10f.pr_8316.traj"
        ),
        "swe_agent",
        runs=1,
        steps=22,
        calls=22,
        errors=None,
        dropped=0,
        turns=1,
        input_tokens=None,
        output_tokens=None,
        successes=None,
        note=(
            "the last response is empty but for its call: a step; tokens are given for the run only (model_stats: "
            "161,683 and 968)"
        ),
    ),
    Expected(
        "tau-bench/MockAirlineDomainEnv-few_shot.jsonl",
        None,
        note="refused: few-shot texts under messages_display, no messages",
    ),
    Expected(
        "tau-bench/MockRetailDomainEnv-few_shot.jsonl",
        None,
        note="refused: few-shot texts under messages_display, no messages",
    ),
    Expected(
        "tau-bench/gpt-4o-airline.trial0.json",
        "tau_bench",
        runs=50,
        steps=642,
        calls=282,
        errors=17,
        dropped=0,
        turns=370,
        input_tokens=None,
        output_tokens=None,
        successes=21,
        note="a result is an error if it begins with `Error`",
    ),
    Expected(
        "tau2_files.tsv",
        None,
        note="no log: a list of files of tau2-bench, with what each holds",
    ),
)
