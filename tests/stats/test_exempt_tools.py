"""One list of exempt tools serves many recordings, some of which never call all of them."""

from collections.abc import Callable
from typing import Any

import pytest

import boolab as bl


@pytest.mark.parametrize("ask", ["recommend", "scorecard", "counterfactual", "rules", "CapLab", "recording_df"])
def test_an_exempt_tool_that_is_never_called_is_accepted(ask: str) -> None:
    look = {"tool_calls": [{"name": "look"}], "repeat": 3}
    runs = [bl.run_sync(None, f"Task {n}", model=bl.ScriptedModel([look, "Done."]), tools=[]) for n in range(3)]
    asked: dict[str, Callable[[str], Any]] = {
        "recommend": lambda tool: bl.recommend(runs, exempt=[tool]).notes,
        "scorecard": lambda tool: bl.scorecard(runs, [bl.doom_loop(2, exempt=[tool])]).notes,
        "counterfactual": lambda tool: bl.counterfactual(runs, grid={"doom_loop": [2]}, exempt=[tool]),
        "rules": lambda tool: bl.counterfactual(runs, rules=[bl.doom_loop(2, exempt=[tool])]),
        "CapLab": lambda tool: bl.CapLab(runs, exempt=[tool]),
        "recording_df": lambda tool: bl.recording_df(runs, exempt=[tool]),
    }
    found = asked[ask]("poll")
    if ask in ("recommend", "scorecard"):
        assert "No call of the tool 'poll' is on record: to name it changes nothing here." in found
    with pytest.raises(bl.SettingError, match="no call of the tool 'loook' is on record; did you mean 'look'"):
        asked[ask]("loook")
