"""CapLab in Python: its controls, what they answer, and what stands where no JavaScript runs."""

import asyncio
import html
import io
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from matplotlib.image import imread

import boolab as bl
from boolab.harnesses.setting import Setting
from boolab.widgets.caplab.data import CapTables
from boolab.widgets.caplab.question import Question
from boolab.widgets.replay.widget import replay_parts
from tests.support.caplab_cases import Told, runs_of
from tests.support.packed import unpacked


def some_runs() -> list[bl.Run]:
    """Four runs of two agents, three successes; the longest has a doom loop in it."""
    return runs_of(
        Told(("A B C D -",), success=True, task="one"),
        Told(("A A A A A B -",), success=True, task="two", agent="explorer"),
        Told(("A B -",), success=True, task="three"),
        Told(("A B A B A B A",), success=False, cut=True),
    )


def shown(lab: bl.CapLab) -> Any:
    """What the browser has been sent."""
    return unpacked(lab._view._data)


def ask(lab: bl.CapLab, **wanted: Any) -> None:
    """Ask for something, as the controls in the browser do."""
    lab._view.wanted = wanted


def lab_of_all() -> bl.CapLab:
    """A lab on the runs of two agents, all together, without a limit."""
    lab = bl.CapLab(some_runs())
    lab.setting = {"agent": "all", "max_steps": None}
    return lab


def test_caplab_opens_on_the_agent_with_most_runs() -> None:
    lab = bl.CapLab(some_runs())
    assert (lab.setting["agent"], shown(lab)["base"]["units"]) == ("coder", 3)


def test_moved_slider_changes_setting_and_answer() -> None:
    lab = lab_of_all()
    assert shown(lab)["answer"]["kept"] == {"lower": 3, "upper": 3, "of": 3}
    ask(lab, max_steps=3, n=7)
    assert lab.setting["max_steps"] == 3
    assert lab.answer == shown(lab)["answer"]
    assert shown(lab)["answered"] == 7
    assert shown(lab)["answer"]["kept"] == {"lower": 1, "upper": 1, "of": 3}
    assert [row["run"] for row in lab.answer["rows"]] == ["r1", "r0", "r3"]
    ask(lab, max_steps=None)
    assert lab.setting["max_steps"] is None


def test_caplab_lists_agents_with_runs_and_all_together_last() -> None:
    agents = shown(bl.CapLab(some_runs()))["agents"]
    assert [(one["name"], one["title"], one["detail"]) for one in agents] == [
        ("coder", "coder", "3 runs"), ("explorer", "explorer", "1 run"), ("all", "all together", "4 runs"),
    ]  # fmt: skip
    lab = bl.CapLab(some_runs())
    ask(lab, agent="explorer")
    assert (lab.setting["agent"], shown(lab)["base"]["units"]) == ("explorer", 1)


def test_caplab_sets_exempt_tools_and_call_identity_by_name() -> None:
    lab = lab_of_all()
    counting = shown(lab)["counting"]
    assert (counting["same"], counting["exempt"], counting["scope"]) == ("canonical", [], "turn")
    tool = counting["tools"][0]
    ask(lab, exempt=[tool])
    assert lab.setting["identity"] == {"*": "canonical", tool: None}
    ask(lab, same="raw")
    assert lab.setting["identity"] == {"*": "raw", tool: None}
    ask(lab, exempt=[])
    assert lab.setting["identity"] == "raw"
    assert "arguments letter by letter" in shown(lab)["base"]["counted_by"]


def test_a_setting_asks_for_one_answer() -> None:
    lab = lab_of_all()
    sent: list[object] = []
    lab._view.observe(lambda change: sent.append(change["new"]), "_data")
    lab.setting = {"max_steps": 4, "tool_budget": 5, "doom_loop": 3}
    assert len(sent) == 1
    assert lab.setting == {
        "max_steps": 4, "tool_budget": 5, "doom_loop": 3, "identity": "canonical", "scope": "turn", "agent": "all",
    }  # fmt: skip
    lab.setting = {"doom_loop": None, "agent": "explorer", "identity": "tool", "scope": "run"}
    assert lab.setting["max_steps"] == 4
    assert shown(lab)["base"]["units"] == 1
    assert (shown(lab)["counting"]["same"], shown(lab)["counting"]["scope"]) == ("tool", "run")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"cap": 3}, "there is no 'cap'; accepted: max_steps, tool_budget"),
        ({"max_steps": 0}, "max_steps=0: expected a whole number, 1 or more, or None"),
        ({"doom_loop": 1}, "doom_loop=1: expected a whole number, 2 or more, or None"),
        ({"tool_budget": 2.5}, "tool_budget=2.5: expected a whole number"),
        ({"max_steps": True}, "max_steps=True: expected a whole number"),
        ({"max_steps": "9"}, "max_steps='9': expected a whole number"),
        ({"max_steps": 3, "agent": "who"}, "no run is of this agent"),
        ({"scope": "day"}, "scope"),
    ],
)
def test_a_setting_that_cannot_be_moves_nothing(wanted: Any, said: str) -> None:
    lab = bl.CapLab(some_runs())
    before, data = lab.setting, lab._view._data
    with pytest.raises(bl.SettingError, match=said):
        lab.setting = wanted
    assert (lab.setting, lab._view._data) == (before, data)


def test_caplab_takes_limits_beyond_what_is_on_record() -> None:
    """So that one script can be run on any runs."""
    lab = bl.CapLab(some_runs())
    lab.setting = {"max_steps": None, "tool_budget": None, "doom_loop": None}
    unlimited = {name: value for name, value in lab.answer.items() if name in ("kept", "cut", "saved")}
    lab.setting = {"max_steps": 99_999_999, "tool_budget": 5_000, "doom_loop": 50}
    assert (lab.setting["max_steps"], lab.setting["doom_loop"]) == (99_999_999, 50)
    assert {name: lab.answer[name] for name in unlimited} == unlimited


def test_a_lab_of_no_known_scope_is_refused() -> None:
    with pytest.raises(bl.SettingError, match="scope='day' is not known; accepted: turn"):
        bl.CapLab(some_runs(), scope="day")  # type: ignore[arg-type]


def test_threshold_under_another_identity_stays_or_gets_looser() -> None:
    lab = bl.CapLab(some_runs())
    lab.setting = {"identity": "tool"}
    ask(lab, doom_loop=6)
    lab.setting = {"identity": "canonical"}
    assert lab.setting["doom_loop"] is None  # no run repeats a call so often
    ask(lab, scope="run")
    assert lab.setting["scope"] == "run"


def test_the_recommended_setting_is_taken_on_a_click() -> None:
    runs = runs_of(
        *(Told(("A B C -",), success=True, task=f"t{n}") for n in range(80)), Told(("A " * 12 + "-",), success=False)
    )
    lab = bl.CapLab(runs)
    assert shown(lab)["recommended"] is None
    ask(lab, recommended=True)
    wanted = bl.recommend(runs).setting
    assert {name: lab.setting[name] for name in wanted} == wanted
    assert any(value is not None for value in wanted.values())
    assert shown(lab)["recommended"]["keep"] == 0.95


def test_less_to_keep_gives_another_recommendation() -> None:
    runs = some_to_recommend()
    lab = bl.CapLab(runs)
    assert shown(lab)["keeps"] == [0.9, 0.95, 0.98, 0.99]
    tight = lab.recommended["setting"]
    ask(lab, keep=0.9)
    assert (lab.keep, shown(lab)["keep"], shown(lab)["recommended"]) == (0.9, 0.9, None)
    assert lab.recommended["setting"] == bl.recommend(runs, 0.9).setting != tight
    assert "keeps 90% of the successes" in lab.answer["curve"]["title"]
    with pytest.raises(bl.SettingError, match="keep="):
        lab.keep = 2


def test_where_nothing_is_recommended_there_is_a_reason() -> None:
    lab = bl.CapLab(some_runs())
    ask(lab, recommended=True)
    assert shown(lab)["recommended"]["setting"] is None
    assert shown(lab)["recommended"]["words"].endswith("needed.")
    assert shown(lab)["answer"]["verdict"] == lab.recommended["verdict"]
    assert lab.setting["max_steps"] is None


@cache
def some_to_recommend() -> list[bl.Run]:
    """Runs of 40 lengths, for which a cap is recommended that is looser than the tightest one on record."""
    good = [Told(("A B " * (1 + n // 10) + "-",), success=True, task=f"t{n}") for n in range(200)]
    return runs_of(*good, *(Told(("A B " * 24 + "-",), success=False, task=f"f{n}") for n in range(300)))


@pytest.mark.slow
def test_caplab_opens_without_limit_then_on_recommendation() -> None:
    runs = some_to_recommend()
    wanted = bl.recommend(runs).setting["max_steps"]

    async def live() -> tuple[Any, Any, Any]:
        lab = bl.CapLab(runs)
        first, record = lab.setting["max_steps"], lab.answer["curve"]["tightest"]
        assert lab._search is not None
        await lab._search
        return first, record, lab

    first, record, lab = asyncio.run(live())
    assert first is None
    assert record < wanted == lab.setting["max_steps"]
    assert shown(lab)["answer"]["setting"]["max_steps"] == wanted
    assert lab.answer["curve"]["title"].startswith(f"With 95% confidence a cap of {wanted} keeps 95%")


def test_chosen_limit_stays_when_the_recommendation_arrives() -> None:
    async def live() -> Any:
        lab = bl.CapLab(some_to_recommend())
        ask(lab, max_steps=4)
        assert lab._search is not None
        await lab._search
        return lab.setting["max_steps"]

    assert asyncio.run(live()) == 4


def test_another_agent_opens_on_its_own_decision() -> None:
    lab = bl.CapLab(some_runs())
    for agent in ("explorer", "all"):
        ask(lab, agent=agent)
        assert (lab.setting["agent"], lab.setting["max_steps"]) == (agent, None)
    ask(lab, max_steps=2)
    ask(lab, agent="coder")
    assert (lab.setting["agent"], lab.setting["max_steps"]) == ("coder", 2)


def test_notebook_gets_the_recommendation_without_waiting() -> None:
    async def live() -> tuple[bool, bool, Any]:
        lab = bl.CapLab(some_runs())
        first = shown(lab)
        assert lab._search is not None
        await lab._search
        return first["searching"], first["recommended"] is None, shown(lab)

    searching, none_yet, later = asyncio.run(live())
    assert searching
    assert none_yet
    assert not later["searching"]
    assert later["recommended"]["sentences"]


def test_a_run_that_is_chosen_opens_below_at_its_step() -> None:
    lab = bl.CapLab(some_runs())
    lab.opened = {"run": "r1", "step": 3}
    assert isinstance(lab.replay, bl.Replay)
    assert (lab.replay.run.run_id, lab.replay.step) == ("r1", 3)
    assert lab.replay in lab.children[-1].children
    assert lab._view.opened == {"run": "r1", "step": 3}
    lab._view.opened = {"run": "r0", "step": 99}  # as the browser sets it
    assert (lab.opened, lab.replay.step) == ({"run": "r0", "step": 5}, 5)
    lab.set_trait("opened", None)
    assert lab.children[-1].children == ()
    with pytest.raises(bl.SettingError, match="opened="):
        lab.opened = {"run": "r9", "step": 1}


def test_what_was_asked_for_once_can_be_asked_for_again() -> None:
    lab = bl.CapLab(some_runs())
    for _ in range(2):
        ask(lab, max_steps=2)
        assert lab.setting["max_steps"] == 2
        lab.setting = {"max_steps": 5}


def test_more_rows_are_listed_when_they_are_asked_for() -> None:
    lab = bl.CapLab(runs_of(*(Told(("A B C -",)) for _ in range(60))))
    lab.setting = {"max_steps": 1}
    assert (len(shown(lab)["answer"]["rows"]), shown(lab)["answer"]["cut"]["n"]) == (12, 60)
    lab._view.rows = 140
    assert len(shown(lab)["answer"]["rows"]) == 60


def test_an_answer_is_small() -> None:
    lab = bl.CapLab(runs_of(*(Told(("ABC " * (n % 50) + "-",), success=n % 3 > 0) for n in range(300))))
    lab.setting = {"max_steps": 7, "tool_budget": 30}
    assert len(lab._view._data) < 20_000


def test_the_live_view_is_displayed_before_its_page_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, *, raw: done.append(", ".join(bundle)))

    def page(_: bl.CapLab) -> str:
        done.append("page made")
        return "<p>page</p>"

    monkeypatch.setattr(bl.CapLab, "_page", page)
    lab_of_all()._ipython_display_()
    assert done == ["text/plain, application/vnd.jupyter.widget-view+json", "page made", "text/plain, text/html"]


def test_a_displayed_text_is_that_of_the_page_beside_it() -> None:
    lab = bl.CapLab(some_to_recommend())
    live, saved = lab._bundles()
    assert live["text/plain"] == repr(lab)  # the decision is not there yet
    assert lab.recommended["setting"]["max_steps"] == lab.setting["max_steps"]
    assert lab.recommended["verdict"][0] in saved["text/plain"]
    assert lab.recommended["verdict"][0] in html.unescape(html.unescape(saved["text/html"]))


def test_a_page_that_is_too_large_is_named_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bl.CapLab, "_page", lambda _: "." * 3_000_000)
    bundle = lab_of_all()._repr_mimebundle_()
    assert "Too large to keep in a notebook (3,000,000 characters)" in bundle["text/html"]
    assert len(bundle["text/html"]) < 5_000


def test_without_javascript_a_text_and_a_picture_stand_in() -> None:
    lab = lab_of_all()
    lab.setting = {"max_steps": 3}
    bundle = lab._repr_mimebundle_()
    assert repr(lab) == "CapLab(caps on 4 runs)"
    assert bundle["text/plain"].startswith(
        "CapLab(caps on 4 runs)\nSetting: step cap 3, no tool budget, no doom-loop threshold"
    )
    assert "Kept: 1 of 3 (33.3%) successes." in bundle["text/plain"]
    assert "<iframe" in bundle["text/html"]
    assert imread(io.BytesIO(lab._picture())).std() > 0


def test_replays_of_a_page_are_made_once_for_the_current_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[list[str]] = []

    def counted(runs: Any) -> Any:
        parts = replay_parts(runs)
        made.append(list(parts))
        return parts

    monkeypatch.setattr("boolab.widgets.caplab.widget.replay_parts", counted)
    monkeypatch.setattr(bl.CapLab, "_picture", lambda _: b"")  # to draw it takes half of the time of a page
    lab = lab_of_all()
    lab.setting = {"max_steps": 3}
    lab.to_html()
    lab.to_html()
    lab.setting = {"max_steps": 6}
    lab.to_html()
    assert made == [["r1", "r0", "r3"], ["r1", "r3"]]


def test_no_runs_are_an_error_that_names_what_is_expected() -> None:
    with pytest.raises(bl.SettingError, match=r"there is no run; expected one or more, such as bl\.load_runs"):
        bl.CapLab([])


def test_recommended_setting_stays_on_sliders_after_keep_changes() -> None:
    lab = bl.CapLab(far_apart())
    first = lab.recommended["setting"]
    ask(lab, recommended=True)
    ask(lab, keep=0.9)
    ask(lab, doom_loop=3)  # the cap stays, before there is another decision
    assert lab.setting["max_steps"] == first["max_steps"]
    ask(lab, recommended=True)
    ask(lab, keep=0.95)
    ask(lab, recommended=True)
    assert {name: lab.setting[name] for name in first} == first


@pytest.mark.slow
def test_answers_are_right_while_a_search_runs_in_a_thread() -> None:
    runs = [replace(run, run_id=f"{agent} {run.run_id}", agent=agent) for agent in "abcd" for run in far_apart()]
    caps = (40, 137, None)

    places = [Setting(max_steps=cap, agent=agent) for agent in "abcd" for cap in caps]

    def numbers(tables: CapTables, place: Setting) -> dict[str, Any]:
        answer = tables.get_table(place).answer(place)
        return {name: answer[name] for name in ("setting", "kept", "saved", "cut", "rows")}

    async def live() -> list[Any]:
        lab, seen = bl.CapLab(runs), []
        while lab._search is not None:
            for place in places:
                lab.setting = place._asdict()
                seen.append((numbers(lab._tables, place), expected[place], lab._search is not None))
                await asyncio.sleep(0)
        return seen

    expected = {place: numbers(CapTables(runs, Question()), place) for place in places}
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        seen = asyncio.run(live())
    finally:
        sys.setswitchinterval(before)
    assert sum(searching for _, _, searching in seen) > 3
    assert all(found == wanted for found, wanted, _ in seen)


def far_apart() -> list[bl.Run]:
    """Runs of up to 300 steps, of which the sliders have some: others are recommended."""
    short = [Told(("A B " * (55 + n // 3) + "-",), success=True, task=f"t{n}") for n in range(90)]
    return runs_of(*short, *(Told(("A B " * 150 + "-",), success=False, task=f"f{n}") for n in range(5)))
