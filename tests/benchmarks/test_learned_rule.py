"""Which sets of the atlas learned rules are measured on."""

import dataclasses

import pytest

import boolab as bl
from benchmarks import learned_rule
from boolab.logs.shipped import BY_NAME_ONLY, atlas_sets


def test_sets_that_have_to_be_named_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for command, place in (("table", "print_table"), ("divisions", "print_divisions")):
        measured: list[str] = []
        monkeypatch.setattr(learned_rule, place, lambda names, *_, into=measured: into.extend(names))
        learned_rule.main([command])
        assert {f"atlas/{name}" for name in measured} == {*atlas_sets()} - {*BY_NAME_ONLY}


@pytest.mark.parametrize("command", ["table", "divisions"])
@pytest.mark.parametrize("success", [None, False])
def test_a_set_without_a_success_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, *, success: bool | None
) -> None:
    run = dataclasses.replace(bl.run_sync(None, "go", model=bl.ScriptedModel(["Done."])), success=success)
    monkeypatch.setattr(bl, "load_dataset", lambda _: [run])
    with pytest.raises(SystemExit, match="2"):
        learned_rule.main([command, "sentinel-faults"])
    assert "sentinel-faults: no run has the label of a success" in capsys.readouterr().err
