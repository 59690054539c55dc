"""The help of the command: nothing is left unsaid, it fits a terminal, and its examples run."""

import argparse
import glob
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.help import refusal, subcommands, suggest_word
from boolab.cli.lab import lab_command
from boolab.cli.main import COMMANDS, help_pages, main, parser_of
from boolab.io.resources import data_path
from boolab.store.rows import records_of
from tests.support.model_protocols import Said, Speaks, both
from tests.support.model_server import ModelServer, stream
from tests.support.project import ROOT
from tests.support.report_cases import write_log, write_sessions
from tests.support.samples import atlas

PAGES = help_pages()
COLUMNS = 80
ENDS_OTHERWISE = {'boolab run explorer "Look around" --model datasets/scripts/polling.yaml': 3}
"""Examples of runs that a limit stops."""
TOLD = r"expected|accepted|choose from"


def parsers(parser: argparse.ArgumentParser | None = None) -> Iterator[argparse.ArgumentParser]:
    """The parser of the command, and those of all its subcommands."""
    parser = parser_of(*COMMANDS) if parser is None else parser
    yield parser
    for command in subcommands(parser):
        yield from parsers(command)


EVERY = pytest.mark.parametrize("parser", [*parsers()], ids=lambda parser: parser.prog)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What can be given, `--help` and subcommands aside."""
    inner = (argparse._HelpAction, argparse._SubParsersAction)
    return [action for action in parser._actions if not isinstance(action, inner)]


def plain(text: str) -> str:
    return " ".join(text.split())


@EVERY
def test_an_abbreviated_option_is_not_accepted(parser: argparse.ArgumentParser) -> None:
    assert not parser.allow_abbrev


def test_an_abbreviated_option_is_refused_with_the_whole_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["whatif", "logs", "--max-step", "5"])
    assert left.value.code == 2
    assert "--max-step is not known; did you mean --max-steps?" in plain(capsys.readouterr().err)


@EVERY
def test_a_page_fits_a_terminal_and_breaks_no_word(parser: argparse.ArgumentParser) -> None:
    page = PAGES[parser.prog]
    assert [line for line in page.splitlines() if len(line) >= COLUMNS or line != line.rstrip()] == []
    said = plain(page)
    for action in options(parser):
        assert plain(str(action.help) % {"default": action.default}) in said
    for command in subcommands(parser):
        summary = plain(str(command.description)).partition(". ")[0]
        assert f"{summary[0].lower()}{summary[1:]}" in said


@EVERY
def test_each_option_says_what_holds_without_it(parser: argparse.ArgumentParser) -> None:
    for action in options(parser):
        told = str(action.help)
        assert told[0].islower() or told[0] == "-", action
        takes_a_value = action.option_strings and action.nargs != 0
        if takes_a_value or action.nargs in ("?", "*"):
            assert re.search(r"\(default: |\(required\)", told), action
        assert action.required is ("(required)" in told) or not action.option_strings


@EVERY
def test_a_page_says_what_the_command_does_and_shows_it(parser: argparse.ArgumentParser) -> None:
    assert plain(str(parser.description))[0].isupper()
    assert all(shlex.split(line)[0] == "boolab" for line in examples(parser.prog))
    assert any(line.startswith(parser.prog) for line in examples(parser.prog))


def test_the_exit_codes_are_told() -> None:
    codes = re.findall(r"^  (\d+)", PAGES["boolab"].partition("exit codes:")[2], re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "130", "129", "143"]


def exit_codes(prog: str) -> list[int]:
    """The exit codes that a page names."""
    return [int(code) for code in re.findall(r"^  (\d+)", PAGES[prog].partition("exit codes:")[2], re.MULTILINE)]


@pytest.mark.parametrize("prog", PAGES)
def test_each_page_names_the_exit_codes_of_its_command(prog: str) -> None:
    codes = exit_codes(prog)
    assert {0, 1, 2, 130} <= set(codes) <= set(exit_codes("boolab"))
    assert (3 in codes) == (prog in ("boolab", "boolab audit", "boolab run"))
    assert prog == "boolab" or codes == sorted(codes)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        *((f"{command} nosuch", 1) for command in ("whatif", "report", "audit", "store ls", "bench", "lab")),
        ("import nosuch -o x.jsonl", 1),
        ("export claude-code", 1),
        ("run nosuch task --model m", 1),
        ("store show nosuch 1", 1),
        ("store export nosuch x.jsonl", 1),
        ("store prune nosuch --replaced", 1),
        ("watch nosuch --once --max-steps 5", 1),
        ("demo -o afile", 1),
        ("hook claude-code --install --settings afile --max-steps 5", 1),
        ("doctor", 0),
        ("audit runs/one.json --limit max_steps=20", 0),
        ("audit runs/one.json --limit max_steps=1", 3),
        *((command, 2) for command in ("export", "run", "bench", "hook", "store", "whatif", "import", "store prune")),
        ("doctor x", 2),
    ],
)
def test_a_command_ends_with_a_code_that_its_page_names(given: str, code: int, world: Path) -> None:
    (world / "afile").write_text("x")
    words = shlex.split(given)
    try:
        found = main(words)
    except SystemExit as left:
        found = int(left.code or 0)
    assert found == code
    prog = next(prog for prog in (f"boolab {' '.join(words[:2])}", f"boolab {words[0]}") if prog in PAGES)
    assert code in exit_codes(prog)


@pytest.mark.parametrize(
    ("prog", "option"),
    [
        (parser.prog, action.option_strings[-1])
        for parser in parsers()
        for action in options(parser)
        if action.option_strings and (action.type is not None or action.choices)
    ],
)
def test_invalid_option_value_is_refused_with_what_is_accepted(
    prog: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*prog.split()[1:], option, "?!"])
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert option in told
    assert re.search(TOLD, told)


def test_unknown_option_is_refused_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["store", "ls", "runs.db", "--jsno"])
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith("boolab store ls: error: --jsno is not known; did you mean --json?\n")


# --- The examples run -------------------------------------------------------------------------------------------------


def examples(prog: str) -> list[str]:
    """The examples of a page, one line each, without what is said beside them."""
    block = PAGES[prog].partition("examples:\n")[2].partition("\n\n")[0]
    lines = re.sub(r"\\\n +", "", block).splitlines()
    return [re.split(r" {2,}", line.strip())[0] for line in lines]


def words(example: str) -> list[str]:
    """The arguments of an example as a shell passes them on; what a pipe does with the output is not its own."""
    given = shlex.split(example.partition(" | ")[0])[1:]
    return [found for word in given for found in (sorted(glob.glob(word)) or [os.path.expanduser(word)])]  # noqa: PTH111, PTH207 - as a shell


@pytest.fixture(scope="module")
def shipped() -> list[bl.Run]:
    return bl.load_runs(data_path("datasets") / "runs")[:3]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: list[bl.Run]) -> Path:
    """A folder with all that the examples speak of, in a home with logs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MY_KEY", "secret")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    samples = ROOT / "tests" / "data"
    sessions = tmp_path / ".claude" / "projects" / "one"
    sessions.mkdir(parents=True)
    write_sessions(sessions)
    shutil.copytree(samples / "codex", tmp_path / ".codex" / "sessions")
    (tmp_path / "logs").mkdir()
    shutil.copy(samples / "inspect" / "stocktake.eval", tmp_path / "logs")
    (tmp_path / "runs").mkdir()
    write_log(tmp_path / "runs" / "one.json", [2, 3, 9], rewards=[1.0, 1.0, 0.0])
    bl.save_runs(shipped, tmp_path / "runs.jsonl")
    (tmp_path / "labels.csv").write_text("run_id,success\n" + "".join(f"{run.run_id},true\n" for run in shipped))
    (tmp_path / "stops.csv").write_text("run_id,stop_step\n" + "".join(f"{run.run_id},\n" for run in shipped))
    (tmp_path / "rules.yaml").write_text("rules: [{doom_loop: 3}, {max_steps: 40}]\n")
    hidden = tmp_path / "hidden_sets" / "security"
    hidden.mkdir(parents=True)
    unseen = [replace(run, run_id=f"hidden/{run.run_id}") for run in atlas("intercode-ctf")]
    bl.save_runs(unseen, hidden / "ctf.parquet")
    (tmp_path / "my_rules.py").write_text("def stop_late(prefix):\n    return len(prefix.steps) >= 20\n")
    (tmp_path / "my_agent.md").write_text("---\nname: mine\n---\nYou look.\n")
    (tmp_path / "datasets").symlink_to(data_path("datasets"))
    for name in ("notebooks", "my_notebooks"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("prog", [prog for prog in PAGES if prog not in ("boolab", "boolab run", "boolab demo")])
def test_the_examples_run(prog: str, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for example in examples(prog):
        if prog.startswith("boolab store"):
            store_with_a_run(world / "runs.db")
        given = words(example)
        if prog == "boolab lab":  # it would become JupyterLab
            args = parser_of(*COMMANDS).parse_args(given)
            as_root = ["--allow-root"] if os.geteuid() == 0 else []
            assert lab_command(args.path, args.options)[4:] == [*as_root, *args.options]
            continue
        if not {"prune", "--install", "--remove"}.isdisjoint(given) and "--yes" not in given:
            given.append("--yes")  # nobody is there to be asked
        if prog == "boolab watch" and "--once" not in given:
            given.append("--once")  # it would go on until it is interrupted
        if prog == "boolab label":
            given += ["--max-steps", "3"]  # the runs there are of one length, so no value is proposed
            if {"--export", "--no-questions"}.isdisjoint(given):
                given.append("--status")  # it would ask
        assert main(given) == 0, example
        told = capsys.readouterr().out
        if " | jq '." in example:
            key = example.partition(" | jq '.")[2].partition("[")[0]
            assert isinstance(json.loads(told)[key], list)
        for name in re.findall(r"\S+\.(?:html|csv|parquet)$", example):
            assert (world / name).stat().st_size


def store_with_a_run(path: Path) -> None:
    """A store with one sweep of one run, whose id begins as the help says."""
    path.unlink(missing_ok=True)
    with bl.Store(path) as store:
        store.begin_sweep([("a", "1")], {"agents": ["x"]})
        run = bl.run_sync(None, "go", model=bl.ScriptedModel(["Done."]))
        store.put(records_of(replace(run, run_id="3f9a" + 28 * "0")), "a")


@pytest.mark.slow
@both
def test_the_examples_of_run_run(speaks: Speaks, world: Path) -> None:
    shown = [line for line in examples("boolab run") if ("claude" in line) == (speaks.name == "anthropic")]
    with ModelServer(*(stream(*speaks.events(Said("It is the runner."))) for _ in shown)) as server:
        there = ("--base-url", server.url + speaks.root, "--protocol", speaks.name)
        for example in shown:
            played = re.search(r"--model \S+\.(yaml|jsonl)", example)
            assert main([*words(example), *(() if played else there), "--quiet"]) == ENDS_OTHERWISE.get(example, 0), (
                example
            )
    assert (world / "runs").is_dir()


def test_the_examples_of_demo_are_understood() -> None:
    # tests/cli/test_main.py runs them.
    for example in (*examples("boolab"), *examples("boolab demo")):
        assert parser_of(*COMMANDS).parse_args(words(example)).run is not None


def test_export_names_only_the_target_as_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export"])
    assert plain(capsys.readouterr().err).endswith("the following arguments are required: TARGET")


@pytest.mark.parametrize("words", [["--max-turns", "3"], ["--max-turns=3"]])
def test_audit_leads_to_its_option_for_limits(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["audit", "logs", *words])
    assert "did you mean --limit max_turns=3?" in capsys.readouterr().err


def test_unknown_word_names_the_nearest_or_all() -> None:
    assert suggest_word("dotcor", ["doctor", "demo"]) == "; did you mean doctor?"
    assert suggest_word("x", ["doctor", "demo"]) == " (choose from doctor, demo)"


def test_refusal_names_the_nearest_option_or_the_help() -> None:
    parser = argparse.ArgumentParser(prog="boolab lab")
    _ = parser.add_argument("--copy")
    assert refusal(parser, ["--cpy", "1"]) == "--cpy is not known; did you mean --copy?"
    assert refusal(parser, ["more"]) == "more is not known; 'boolab lab --help' lists the options"
