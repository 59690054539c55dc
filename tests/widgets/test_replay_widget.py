"""The class Replay, without a browser: what it refuses, its traits, its page, its text and its picture."""

import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import traitlets
from ipywidgets.comm import comm
from matplotlib import pyplot as plt
from matplotlib.image import imread

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Response, Step, ToolCall, ToolResult
from boolab.widgets.replay.data import replay_data
from boolab.widgets.replay.widget import replay_text
from tests.browser.examples import EXAMPLES
from tests.support.cases import first
from tests.support.helpers import call, distinct, play, steps


@pytest.fixture(scope="module")
def run() -> Run:
    return play([{"tool_calls": [call("fail")]}, *steps("a a a")], policy="opencode_3631")


@pytest.mark.parametrize("step", [0, -1, 6, True, 1.5])
def test_a_step_outside_the_run_is_refused_with_the_range(run: Run, step: int) -> None:
    with pytest.raises(ValueError, match=rf"step={step}: run {run.run_id} has the steps 1 to 5"):
        bl.Replay(run, step=step)
    replay = bl.Replay(run)
    with pytest.raises((bl.SettingError, traitlets.TraitError)):
        replay.step = step
    assert replay.step == 1


def test_a_run_without_steps_stands_at_its_first_all_the_same(run: Run) -> None:
    none = replace(run, steps=())
    assert bl.Replay(none).step == 1
    with pytest.raises(bl.SettingError, match="has no steps: leave step at 1"):
        bl.Replay(none, step=2)


def test_replay_accepts_one_run_or_store_and_refuses_several(run: Run, tmp_path: Path) -> None:
    with bl.Store(tmp_path / "runs.db") as store:
        store.add([run])
    assert bl.Replay([run]).run is run
    assert bl.Replay(tmp_path / "runs.db").run.run_id == run.run_id
    for several in ([run, run], []):
        with pytest.raises(bl.SettingError, match=rf"one run, not {len(several)}\b.*choose one, as in bl.Replay\("):
            bl.Replay(several)
    with pytest.raises(TypeError, match="expected a Run"):
        bl.Replay([run.steps[0]])  # type: ignore[list-item]


def test_what_is_set_of_it_is_checked(run: Run) -> None:
    replay = bl.Replay(run)
    replay.speed, replay.axis, replay.query = 16, "time", "look"
    for name, wrong in (("speed", 3), ("axis", "steps"), ("query", 1)):
        with pytest.raises(traitlets.TraitError, match=name):
            setattr(replay, name, wrong)


def test_other_policies_and_rules_are_marked(run: Run) -> None:
    replay = bl.Replay(run, policies=["boocode"], rules=bl.max_steps(2))
    assert "max_steps(2): after step 2" in replay._text()
    assert "boocode: doom loop 3: after step 4" in replay._text()


def test_its_repr_is_one_short_line_whatever_is_in_the_run(run: Run) -> None:
    assert repr(bl.Replay(run)) == f"Replay({run.agent}, finished, 5 steps)"
    long = repr(bl.Replay(replace(run, agent="a\n\x1b[31m" * 9_999)))
    assert len(long) < 100
    assert long.isprintable()


@pytest.mark.parametrize("name", first(3, sorted(EXAMPLES.keys() - {"CapLab"}, reverse=True)))  # its test is beside it
def test_a_page_that_is_written_is_not_the_value_of_a_cell(name: str, tmp_path: Path) -> None:
    widget = EXAMPLES[name]()
    assert widget.to_html(tmp_path / "page.html") == tmp_path / "page.html"
    assert (tmp_path / "page.html").read_text("utf-8") == widget.to_html()


def test_its_page_holds_the_data_and_its_step(run: Run, tmp_path: Path) -> None:
    text = bl.Replay(run, step=3).to_html()
    assert '"step": 3' in text
    assert "data:image/png;base64," in text


def test_replay_text_has_a_line_per_step_and_counts_omissions(run: Run) -> None:
    lines = replay_text(replay_data(run, policies=[])).splitlines()
    numbered = [line.split(".")[0].strip() for line in lines if line[:4].strip().isdigit()]
    assert numbered == ["1", "2", "3", "4", "5"]
    assert "   1. fail (failed)" in lines
    assert any("(same call, 3 in a row)" in line for line in lines)
    long = replay_text(replay_data(play(distinct(300), policy="opencode_3631"), policies=[])).splitlines()
    assert len(long) < 60
    assert "      253 steps are left out" in long


def test_its_picture_is_drawn_once_and_leaves_pyplot_alone(run: Run) -> None:
    before = plt.get_fignums()
    replay = bl.Replay(run)
    picture = replay._picture()
    assert imread(BytesIO(picture)).std() > 0.01
    assert replay._picture() is picture
    assert plt.get_fignums() == before
    assert bl.Replay(replace(run, steps=()))._picture().startswith(b"\x89PNG")


def test_no_text_can_keep_it_from_being_shown(run: Run) -> None:
    half, odd = "\ud800", "\x00\x1b[31m\u202e\u6f22$_{"
    calls = (ToolCall(half, half, half), ToolCall(odd, odd, odd))
    one = Step(1, 1, 0, 1, 1, Response(half, calls, odd), (ToolResult(half, half), ToolResult(odd, odd)), error=half)
    names = dict.fromkeys(("run_id", "agent", "model", "policy", "task", "source"), half + odd)
    replay = bl.Replay(replace(run, steps=(one,), limits={half: 1}, **names))  # type: ignore[arg-type] # all of them text
    assert "<noscript>" in replay.to_html()
    assert not any(letter in replay._text() + repr(replay) for letter in (half, "\x00", "\x1b", "\u202e"))


def test_replay_makes_its_data_when_they_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Run] = []
    sent: list[dict[str, Any]] = []

    def count_calls(run: Run, *options: Any) -> dict[str, Any]:
        made.append(run)
        return replay_data(run, *options)

    def send(**state: Any) -> comm.DummyComm:
        sent.append(state)
        return comm.DummyComm(**state)

    monkeypatch.setattr("boolab.widgets.replay.widget.replay_data", count_calls)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    replay = bl.Replay(run)
    assert not made
    page = replay.to_html()
    assert replay.get_state()["_data"] == replay._data
    assert len(made) == 1
    monkeypatch.setattr(comm, "create_comm", send)  # as a kernel does
    live = bl.Replay(run)
    assert len(made) == 2
    assert live._data in sent[-1]["buffers"]
    assert live.to_html() == page


def test_replay_refuses_an_unknown_policy_at_once(run: Run) -> None:
    with pytest.raises(bl.SettingError):
        bl.Replay(run, policies=["nobody"])
