"""LangChain and LangGraph: a middleware for `create_agent`. Run with langchain 1.4.7 and langgraph 1.2.22."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict, Unpack

from boolab.integrations.monitored_run import AdapterOptions, MonitoredRun, import_package
from boolab.limits.monitor import Action, Verdict
from boolab.limits.stop import StopRule


def middleware(rule: StopRule | None, action: Action = "stop", **options: Unpack[AdapterOptions]) -> Any:
    """A middleware that counts the steps of each invocation and jumps to the end at a stop.

    The state then has `boolab_stop`, the stop as a dict, and its last message is an `AIMessage` with the reason, as
    LangChain's own `ModelCallLimitMiddleware` does it. Calls that a rule at the response drops get error results.

    Args:
        rule: The rule; see `bl.Monitor`.
        action: What happens when it is true.
        **options: See `AdapterOptions`.

    Returns:
        What goes into `create_agent(model, tools, middleware=[...])`.
    """
    base = import_package("langchain.agents.middleware.types", "langchain")
    core = import_package("langchain_core.messages", "langchain")
    untracked = import_package("langgraph.channels.untracked_value", "langchain").UntrackedValue
    MonitoredRun(rule, action, **options)  # refuse at once what no run accepts
    run_field = NotRequired[Annotated[Any, untracked, base.PrivateStateAttr]]
    state = {"boolab_run": run_field, "boolab_stop": NotRequired[Annotated[Any, base.OmitFromInput]]}

    def end_state(verdict: Verdict, first: list[Any]) -> dict[str, Any]:
        stop = None if verdict.stop is None else verdict.stop._asdict()
        last = core.AIMessage(verdict.message, response_metadata={"boolab_stop": stop})
        return {"jump_to": "end", "messages": [*first, last], "boolab_stop": stop}

    class MonitorMiddleware(base.AgentMiddleware):  # type: ignore[misc,name-defined] # without types here
        state_schema = TypedDict("MonitorState", state)  # type: ignore[misc] # it resolves no names of this function

        @base.hook_config(can_jump_to=["end"])  # type: ignore[untyped-decorator] # as its base
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
            run, messages = state.get("boolab_run"), state["messages"]
            if run is None:
                run, ids = MonitoredRun(rule, action, **options), [type(msg) is core.HumanMessage for msg in messages]
                start = len(ids) - ids[::-1].index(True) if True in ids and run.monitor.scope == "turn" else 0
            else:
                latest = max(
                    (n for n, msg in enumerate(messages) if isinstance(msg, core.AIMessage)), default=len(messages)
                )
                start = next((n for n, msg in enumerate(messages, 1) if msg.id == run.seen), latest)
            results = {msg.tool_call_id: msg for msg in messages[start:] if isinstance(msg, core.ToolMessage)}
            verdict = run.boundary()
            for msg in messages[start:]:
                if isinstance(msg, core.AIMessage):
                    tools = [results.get(call["id"]) for call in msg.tool_calls]
                    pairs = [None if out is None else (str(out.text), out.status == "error") for out in tools]
                    verdict, run.seen = run.after(msg.tool_calls, pairs, _usage(msg), str(msg.text)), msg.id
            if verdict.action == "stop":
                return {"boolab_run": run} | end_state(verdict, [])
            return {"boolab_run": run, "messages": [core.HumanMessage(verdict.message)] if verdict.message else []}

        @base.hook_config(can_jump_to=["end"])  # type: ignore[untyped-decorator] # as its base
        def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
            last = state["messages"][-1]
            verdict = state["boolab_run"].before(last.tool_calls, _usage(last))
            if verdict.action != "stop":
                return None
            drop = [
                core.ToolMessage(verdict.message, tool_call_id=call["id"], status="error") for call in last.tool_calls
            ]
            return end_state(verdict, drop)

    return MonitorMiddleware()


def _usage(message: Any) -> dict[str, int] | None:
    usage = message.usage_metadata
    return None if not usage else {name: usage[name] for name in ("input_tokens", "output_tokens")}
