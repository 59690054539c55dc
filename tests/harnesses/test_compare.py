"""Comparing policies: the table that they come from, the words for every axis, and where two of them part."""

import functools
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.errors import ScriptError, SettingError
from boolab.harnesses.compare import WIDTH, Comparison
from boolab.harnesses.describe import CONDITIONS, GROUPS, HEAD, NOT_APPLICABLE, axes
from boolab.harnesses.groups import GROUPS as POLICY_GROUPS
from boolab.harnesses.groups import Condition
from boolab.harnesses.policy import PATHS, Policy
from boolab.io.resources import data_path
from boolab.sweeps.divergence import Divergence
from tests.support.cases import cases
from tests.support.helpers import TOOLS, call, distinct, steps

EVERY = sorted(bl.policies)
SCRIPTS = data_path("datasets") / "scripts"
CAP_OF_THREE = bl.Agent("a", tools=TOOLS, max_steps=3)

# --- Side by side -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "loop_style", "finish_guard", "weakness"),
    [
        ("opencode_v1", "while(true) over interruptible effects", "after tools have run", "complex state machine"),
        ("claude_code", "recursive calls", "not explicit", "hard to trace through recursion"),
        ("aider", "prompt first, then look for work", "no:", "sends everything, then checks"),
        ("cline", "sequential, one tool per message", "no batching", "no parallel tools"),
        ("autogpt", "while with max_iterations", "count only", "counts, does not look at content"),
    ],
)
def test_compare_policies_shows_rows_of_the_source_comparison(
    name: str, loop_style: str, finish_guard: str, weakness: str
) -> None:
    said = bl.compare_policies().frame[name]
    assert loop_style in said["about.loop_style"]
    assert finish_guard in said["about.finish_guard"]
    assert weakness in said["about.weakness"]


def test_without_arguments_there_is_a_row_for_each_preset() -> None:
    compared = bl.compare_policies()
    assert [*compared.frame.columns] == [*bl.policies]
    assert [*compared.frame.index] == [*HEAD]
    shown = [line.split()[0] for line in str(compared).splitlines()[2:] if not line.startswith(" ")]
    assert shown == [*bl.policies]


def test_every_field_of_a_policy_is_shown_once_with_all_axes() -> None:
    shown = [*bl.compare_policies("boocode", "crush", all_axes=True).frame.index]
    assert sorted(shown) == sorted(path for path in PATHS if path != "name")
    assert shown[:4] == [*HEAD, "about.source"]


def test_every_axis_has_a_group_and_a_name_of_its_own() -> None:
    assert [axis.field for axis in axes() if axis.group not in GROUPS.values()] == []
    assert len({(axis.group, axis.name) for axis in axes()}) == len(axes())


def test_every_value_that_an_axis_can_have_is_in_words() -> None:
    named = {axis.field: axis.values for axis in axes()}
    closed = {
        f"{group}.{name}": get_args(hint)
        for group, kind in POLICY_GROUPS.items()
        for name, hint in get_type_hints(kind).items()
        if get_origin(hint) is Literal
    }
    assert len(closed) > 10
    silent = [(name, value) for name, values in closed.items() for value in values if value not in named[name]]
    stale = [(name, value) for name, values in closed.items() for value in named[name] if value not in values]
    assert silent == []
    assert stale == []
    assert set(CONDITIONS) == set(get_args(Condition))


def test_each_public_detector_says_what_it_detects() -> None:
    public = [getattr(bl.detectors, name) for name in dir(bl.detectors)]
    classes = [detector for detector in public if isinstance(detector, type) and hasattr(detector, "fold")]
    assert len(classes) > 10
    assert [detector.__name__ for detector in classes if not getattr(detector, "meaning", "")] == ["Detector"]


@cases(150)
@given(st.lists(st.sampled_from(EVERY), min_size=2, max_size=8, unique=True))
def test_compare_policies_hides_equal_axes_and_counts_them(names: list[str]) -> None:
    some, every = bl.compare_policies(*names), bl.compare_policies(*names, all_axes=True)
    equal = {row.field for row in every.rows if len(set(row.cells)) == 1 and row.group != "in short"}
    assert set(every.frame.index) - set(some.frame.index) == equal
    assert some.equal == len(equal)
    assert (f"{len(equal)} more ax" in str(some)) == bool(equal)
    assert every.equal == 0


@cases(150)
@given(st.lists(st.sampled_from(EVERY), max_size=9), st.booleans())
def test_text_fits_its_columns_and_loses_no_word(names: list[str], all_axes: bool) -> None:
    compared = bl.compare_policies(*names, all_axes=all_axes)
    text = str(compared)
    assert max(map(len, text.splitlines())) <= WIDTH
    letters = "".join(text.split())
    for row in compared.rows:
        assert row.name.split()[0] in text
        if len(names) > 4:  # listed, so that a cell stands in one piece
            assert all("".join(cell.split()) in letters for cell in row.cells)


def test_axis_without_effect_under_a_policy_is_no_difference() -> None:
    cautious = bl.policies["naive"].vary(
        continues={"counters": "fresh"}, last_step={"prompt": "Never sent."}, budgets={"on_unknown": "error"}
    )
    assert set(bl.compare_policies("naive", cautious).frame.index) == {*HEAD, "about.source"}
    assert bl.compare_policies("naive", all_axes=True).frame.loc["last_step.prompt", "naive"] == NOT_APPLICABLE


def test_variant_is_shown_beside_its_preset_under_its_own_name() -> None:
    loose = bl.policies["boocode"].vary(detectors={"doom_loop": 5})
    frame = bl.compare_policies("boocode", loose).frame
    assert frame.loc["detectors.doom_loop"].to_dict() == {"boocode": "3", "boocode (2)": "5"}


def test_one_policy_alone_is_shown_with_all_its_axes() -> None:
    assert len(bl.compare_policies("roo").frame) == len(axes())


@pytest.mark.parametrize("names", [(), ("boocode", "evil"), tuple(EVERY)], ids=["overview", "columns", "lists"])
def test_names_and_texts_are_no_markup(names: tuple[str, ...]) -> None:
    evil = bl.policies["naive"].vary(name="<b>x</b>", about={"weakness": "<script>alert(1)</script>\x1b[31m"})
    compared = bl.compare_policies(*(evil if name == "evil" else name for name in (*names, "evil")))
    page = compared._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page + str(compared)


def test_an_unknown_name_is_an_error_that_tells_the_presets() -> None:
    for wrong in ("nonsense", ["boocode", "cline"], 3):
        with pytest.raises(SettingError, match=r"there is no policy .*; presets: ai_sdk, .*boocode"):
            bl.compare_policies(wrong)  # type: ignore[arg-type] # on purpose


def test_all_axes_table_shows_all_presets_common_values_first() -> None:
    compared = bl.compare_policies(all_axes=True)
    assert compared.frame.shape == (len(axes()), len(bl.policies))
    lines = str(compared).splitlines()
    finishing = lines.index(next(line for line in lines if line.strip() == "tools that end the turn"))
    assert lines[finishing + 1].startswith("    boocode, ")
    assert "roo" not in lines[finishing + 1]


def test_a_comparison_is_short_in_a_list() -> None:
    assert isinstance(bl.compare_policies("boocode"), Comparison)
    assert repr(bl.compare_policies("boocode", "naive", all_axes=True)) == (
        f"<Comparison of 2 policies: {len(axes())} rows>"
    )


# --- Where they part --------------------------------------------------------------------------------------------------

part = functools.partial(bl.first_divergence, tools=TOOLS)
AAA = steps("A " * 30, end=None)
PENDING = [{"tool_calls": [call(what="a")]}, {"tool_calls": [call(what="b")], "finish_reason": "stop"}, "done"]


def found(script: Any, a: str | Policy, b: str | Policy, **options: Any) -> Divergence:
    parted = part(script, a, b, **options)
    assert parted is not None
    return parted


def test_divergence_separates_dropping_from_executing_calls() -> None:
    parted = found(PENDING, "naive", "boocode")
    assert parted.step == 2
    assert "drops it" in parted.a
    assert "executes it" in parted.b
    assert len(parted.run_a.steps[1].dropped) == 1
    assert parted.run_b.n_tool_calls == 2


def test_only_opencode_v2_forbids_calls_in_the_last_step() -> None:
    parted = found(distinct(9), "opencode_v1", "opencode_v2", agent=CAP_OF_THREE)
    assert parted.step == 3
    assert "may call tools" in parted.a
    assert "may call no tool" in parted.b
    parted = found(distinct(9), "opencode_3631", "opencode_v2", agent=CAP_OF_THREE)
    assert parted.step == 3
    assert "is offered no tools" in parted.a


def test_doom_loop_stop_diverges_from_a_run_that_continues() -> None:
    parted = found(AAA, "boocode", "crush")
    assert parted.step == 4
    assert "ends after step 3: doom_loop" in parted.a
    assert "makes step 4" in parted.b
    assert (parted.run_a.n_steps, parted.run_b.n_steps) == (3, 10)
    assert "only crush" in parted.what


def test_cline_tells_the_model_of_a_repeat_before_roo_blocks_it() -> None:
    parted = found(AAA, "roo", "cline")
    assert parted.step == 4
    assert "no such message" in parted.a
    assert "repeating yourself" in parted.b


def test_one_tool_per_message_parts_at_the_first_batch() -> None:
    parted = found(steps("A BC"), "cline", "boocode")
    assert parted.step == 2
    assert "executes 1 and refuses 1" in parted.a
    assert "executes them" in parted.b


def test_equal_runs_diverge_where_only_one_requests_a_summary() -> None:
    quiet = bl.policies["boocode"].vary(name="quiet", wrap_up={"summary": "none", "sentinel": False})
    script = bl.ScriptedModel(distinct(9), summary="Summed up.")
    parted = found(script, "boocode", quiet, agent=CAP_OF_THREE)
    assert parted.step == 4
    assert "requests a summary" in parted.a
    assert "summary" not in parted.b


def test_equal_runs_diverge_where_stop_reasons_differ() -> None:
    other_order = bl.policies["boocode"].vary(name="other order", order=("doom_loop", "max_steps", "tool_budget"))
    parted = found(AAA, "boocode", other_order, agent=CAP_OF_THREE)
    assert parted.step == 4
    assert "for other reasons" in parted.what
    assert (parted.run_a.stop_reason, parted.run_b.stop_reason) == ("step_cap", "doom_loop")


def test_execution_order_and_times_are_no_divergence() -> None:
    slow = [{"tool_calls": [call(what="a"), call(what="b")], "latency_ms": 900}, "done"]
    one_by_one = bl.policies["boocode"].vary(name="one by one", execution={"calls": "sequence"})
    assert part(slow, "boocode", one_by_one) is None


def test_what_an_executed_call_gives_is_no_difference() -> None:
    given_so_far: list[int] = []

    def tick() -> str:
        given_so_far.append(1)
        return str(len(given_so_far))

    script = [{"tool_calls": [call("tick")]}, {"tool_calls": [call("tick")]}, "done"]
    assert bl.first_divergence(script, "boocode", "opencode_3631", tools=[tick]) is None
    assert len(given_so_far) == 4


def test_a_script_may_be_a_list_a_path_or_a_model() -> None:
    path = SCRIPTS / "early_exit.yaml"
    parted = [
        bl.first_divergence(script, "naive", "boocode") for script in (path, str(path), bl.ScriptedModel.load(path))
    ]
    assert [one and one.step for one in parted] == [2, 2, 2]


def test_divergence_tells_two_variants_of_one_preset_apart() -> None:
    shorter = bl.policies["naive"].vary(cap={"max_steps": 2})
    parted = found(AAA, "naive", shorter)
    assert str(parted).splitlines() == [
        "naive and naive (2) diverge at step 3: only naive makes this step.",
        "  naive:     makes step 3: calls look, and executes it",
        "  naive (2): ends after step 2: step_cap, by max_steps(2)",
    ]
    assert found(AAA, shorter, "naive").what == "only naive (2) makes this step."
    assert repr(parted).startswith("<Divergence of naive and naive (2) at step 3")
    assert [*bl.divergences(AAA, ["naive", shorter], tools=TOOLS).columns] == ["naive", "naive (2)"]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_subagent_requests_are_no_step_of_the_caller(steps: int) -> None:
    task = {"tool_calls": [call("task", agent="scout", prompt="p")]}
    twice = bl.ScriptedModel([task, *distinct(1, None), "done"], summary="s", tools={"look": ["x", "y"]})
    tools = [*TOOLS, bl.task_tool(bl.Agent("scout", tools=TOOLS, max_steps=2, policy="boocode"))]
    parted = functools.partial(bl.first_divergence, twice, tools=tools)
    assert parted("cline", "naive") is None
    capped = parted("naive", bl.policies["naive"].vary(cap={"max_steps": steps}))
    assert (capped and capped.step) == (steps + 1 if steps < 3 else None)
    assert all(run.subagents for run in (capped.run_a, capped.run_b)) if capped else True


def test_divergence_ignores_calls_executed_by_a_subagent() -> None:
    task = {"tool_calls": [call("task", agent="scout", prompt="p")]}
    model = bl.ScriptedModel([task, {"tool_calls": [call(what="a"), call(what="b")]}, "done"])
    tools = [*TOOLS, bl.task_tool(bl.Agent("scout", tools=TOOLS))]
    parted = bl.first_divergence(model, "naive", "cline", tools=tools)
    assert parted is not None
    assert (parted.step, parted.what) == (2, "the calls have other results.")
    assert parted.b.startswith("calls look (2 calls), and executes 1 and refuses 1")


def test_summary_under_one_policy_only_is_a_divergence() -> None:
    static = bl.policies["boocode"].vary(wrap_up={"summary": "static"})
    model = bl.ScriptedModel(steps("A A A", end=None), summary="In short.")
    parted = found(model, "boocode", static)
    assert (parted.step, parted.what) == (4, "both end before it, and something else follows.")
    assert parted.a.endswith("and requests a summary")
    assert parted.b.endswith("and leaves a sentinel")


def test_failed_compaction_under_one_policy_is_a_divergence() -> None:
    compacting = bl.policies["naive"].vary(compaction=bl.Compaction(at_tokens=1))
    model = bl.ScriptedModel(distinct(3), compaction={"tool_calls": [call()]})
    parted = found(model, "naive", compacting)
    assert (parted.step, parted.what) == (5, "both end before it, and something else follows.")


def test_a_step_that_breaks_under_one_of_them_says_how() -> None:
    parted = found([*steps("A A A", end=None), {"error": {"status": 500}}], "boocode", "naive")
    assert parted.b == "makes step 4: the step breaks: ModelError: HTTP 500"


@pytest.mark.parametrize("script", [3, None, object()])
def test_what_is_no_script_is_an_error_that_says_what_one_is(script: Any) -> None:
    with pytest.raises(ScriptError, match="is no script: expected a list of items, the path of a script, or a model"):
        bl.first_divergence(script, "naive", "roo")


def test_a_divergence_reads_as_one_sentence_and_two_lines() -> None:
    lines = str(found(AAA, "boocode", "crush")).splitlines()
    assert lines[0] == "boocode and crush diverge at step 4: only crush makes this step."
    assert [line.split()[0] for line in lines[1:]] == ["boocode:", "crush:"]
    assert "\n" not in repr(found(AAA, "boocode", "crush"))


WORDS = st.lists(
    st.one_of(
        st.text("ABF", min_size=1, max_size=3).map(
            lambda word: {
                "tool_calls": [call("fail" if c == "F" else "look", what=c) for c in word],
                "usage": {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.4},
            }
        ),
        st.sampled_from(["a text", {"text": "", "finish_reason": "length"}, {"text": "x", "finish_reason": "unknown"}]),
        st.just({"tool_calls": [call(what="p")], "finish_reason": "stop"}),
        st.just({"tool_calls": [call("nobody")]}),
        st.just({"text": "half", "error": {"reset": True, "after": 2}}),
    ),
    max_size=9,
)


@pytest.mark.parametrize("name", EVERY)
@cases(40)
@given(script=WORDS)
def test_a_policy_never_parts_from_itself(name: str, script: list[Any]) -> None:
    assert part(script, name, bl.policies[name].vary(name="itself")) is None


@cases(240)
@given(script=WORDS, a=st.sampled_from(EVERY), b=st.sampled_from(EVERY))
def test_divergence_step_does_not_depend_on_policy_order(script: list[Any], a: str, b: str) -> None:
    one, other = part(script, a, b), part(script, b, a)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert (one.step, one.what, one.a, one.b) == (other.step, other.what, other.b, other.a)
        assert 1 <= one.step <= max(one.run_a.n_steps, one.run_b.n_steps) + 1


@cases(240)
@given(script=WORDS, a=st.sampled_from(EVERY), b=st.sampled_from(EVERY))
def test_before_they_part_both_records_hold_the_same_steps(script: list[Any], a: str, b: str) -> None:
    parted = part(script, a, b)
    shared = 10**9 if parted is None else parted.step - 1
    runs = [bl.run_sync(None, "go", model=bl.ScriptedModel(script), tools=TOOLS, policy=name) for name in (a, b)]
    told = [
        [(step.response.tool_calls, [result and result.content for result in step.results]) for step in run.steps]
        for run in runs
    ]
    assert told[0][:shared] == told[1][:shared]
    if parted is None:
        assert runs[0].stop_reason == runs[1].stop_reason


@cases(40)
@given(script=WORDS)
def test_the_matrix_holds_the_first_step_of_every_pair(script: list[Any]) -> None:
    names = ["boocode", "cline", "crush", "naive", "roo"]
    table = bl.divergences(script, names, tools=TOOLS)
    assert [*table.index] == [*table.columns] == names
    for a in names:
        for b in names:
            parted = part(script, a, b)
            assert table.loc[a, b] is pd.NA if parted is None else table.loc[a, b] == parted.step


@cases(30)
@given(script=WORDS)
def test_divergence_steps_of_three_policies_are_consistent(script: list[Any]) -> None:
    steps_apart = bl.divergences(script, tools=TOOLS).astype("Float64").fillna(float("inf")).to_numpy(dtype=float)
    for one in steps_apart:
        for other, apart in zip(steps_apart, one, strict=True):
            assert all(apart >= min(a, b) for a, b in zip(one, other, strict=True))


def test_the_matrix_is_about_all_presets_by_default() -> None:
    assert [*bl.divergences(Path(SCRIPTS / "clean_finish.yaml")).columns] == [*bl.policies]
