"""The report: it stands by itself, its links lead somewhere, and what logs say is text."""

import io
import re
import shlex
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import Markup

import boolab as bl
from boolab.cli.main import main
from boolab.display.html import code, text_of
from boolab.logs.load import Reading
from boolab.logs.save import save_runs
from boolab.report import progress
from boolab.report.data_quality import Quality
from boolab.report.html_page import page_of
from boolab.report.limit_tables import listed_cuts
from boolab.report.question import Question
from boolab.report.run_excerpts import RunBook
from boolab.report.snippets import LogInputs, front_matter
from boolab.report.study import Study, study_of, study_of_runs
from boolab.report.text import as_data
from boolab.report.text import text as told_of
from tests.support.cases import first
from tests.support.helpers import call, play, steps
from tests.support.report_cases import HOSTILE, draw_no_figures, write_log, write_sessions

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """What a page holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def study(path: Path, **how: object) -> Study:
    return study_of([str(path)], Question(**how))  # type: ignore[arg-type] # a test's own keywords


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("logs")
    write_log(folder / "a'b\"<i>.json", [1, 2, 3, 3, 9], rewards=[1, 1, 1, 0, 1], tool=HOSTILE, said=HOSTILE)
    (folder / "<b>broken.json").write_text("{")
    return page_of(study(folder, scope="run"), title=HOSTILE, inputs=LogInputs([HOSTILE]))


def test_report_loads_nothing_external_and_runs_only_its_script(hostile: str) -> None:
    page = Page(hostile)
    names = {name for name, _ in page.tags}
    assert page.open == []
    assert names.isdisjoint({"link", "iframe", "object", "embed", "form", "base", "img"})
    assert all(attributes in ({}, {"type": "text/plain", "id": f"frame-{n}"})
               for name, attributes in page.tags if name == "script" for n in range(1))  # fmt: skip
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href", "action", "srcset"):
                assert value is not None
                assert value.startswith(("#", "data:image/png;base64,", "data:text/csv;base64,"))
    style = hostile[hostile.index("<style>") : hostile.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    policy = next(a["content"] for n, a in page.tags if n == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")


def test_what_logs_say_is_text(hostile: str) -> None:
    assert hostile.count("<script") == 2
    assert "\x1b" not in hostile
    assert "\u202e" not in hostile
    assert "alert('x')" in Page(hostile).text


def test_every_link_leads_somewhere_and_every_name_is_unique(hostile: str) -> None:
    page = Page(hostile)
    names = [str(attributes["id"]) for _, attributes in page.tags if "id" in attributes]
    links = {str(a["href"])[1:] for _, a in page.tags if str(a.get("href", "")).startswith("#")}
    assert len(names) == len(set(names))
    assert links <= set(names)
    assert any(link.startswith("cut-max_steps-") for link in links)
    assert any(link.startswith("run-") for link in links)


@pytest.mark.slow
def test_a_count_leads_to_as_many_runs_even_without_transcripts(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.json", [1, 2, 3], said="a secret")
    text = page_of(study(log, scope="run"), transcripts=False)
    listed = text[text.index('id="cut-max_steps-2"') :]
    listed = listed[: listed.index("</details>")]
    assert "2 runs stopped, 2 of them successes" in listed
    assert listed.count("<tr>") == 1 + 2
    assert "needs" in listed
    assert 'href="#run-2"' in listed
    assert "a secret" not in text


def test_the_figures_follow_the_scheme(hostile: str) -> None:
    assert hostile.count("<svg ") >= 5
    assert "prefers-color-scheme:dark" in hostile
    assert 'class="dark"' not in hostile  # one figure for both schemes
    assert "<?xml" not in hostile


def test_the_answer_and_the_data_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_figures(monkeypatch)
    log = write_log(tmp_path / "log.json", [*range(1, 6)] * 16, rewards=[1, 1, 1, 0, 0] * 16)
    found = study(log, scope="run", keep=0.9)
    text = Page(page_of(found)).text
    places = [
        text.index(said)
        for said in (
            "step cap of 4",
            "steps saved",
            "How to set it",
            "The data.",
            "Each limit",
            "How certain this is",
        )
    ]
    assert places == sorted(places)
    assert "steps: 4\n" in front_matter(found)
    assert "Excerpts of 50 of 80" in text


def test_without_labels_the_proxy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_figures(monkeypatch)
    found = study(write_sessions(tmp_path))
    text = Page(page_of(found)).text
    assert "proxy" in text
    assert "Set no limit yet:" in text
    assert "No success label is used: a turn that ended by itself counts as a success" in text
    assert "No limit is to be set" in front_matter(found)
    assert "What these runs do show" in text


@pytest.mark.slow
def test_groups_have_their_own_tables(tmp_path: Path) -> None:
    write_log(tmp_path / "airline.json", [1, 2])
    write_log(tmp_path / "retail.json", [3, 4])
    page = Page(page_of(study(tmp_path, by=("task",))))
    assert "step cap for airline/0" in page.text
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))


def test_the_template_escapes_what_is_not_markup() -> None:
    assert text_of(Markup("<b>\x1b")) == "<b>\x1b"
    assert text_of("<b>\x1b\n\ud800 c") == "<b> c"
    assert code('<a href="x">\x1b\ud800') == "<pre>&lt;a href=&#34;x&#34;&gt;\ufffd\ufffd</pre>"
    assert isinstance(code(""), Markup)


def test_unsupported_policy_gets_tables_and_the_reason(tmp_path: Path) -> None:
    found = study(write_sessions(tmp_path), policy="openhands")
    assert found.found.sentences[0].startswith("No recommendation. policy openhands: it sends the model messages")
    assert not found.found.groups
    assert len(found.margins["max_steps"]) > 1


@pytest.mark.parametrize(
    ("silent", "told"),
    first(
        1,
        [
            [5, "5 of 8 runs report finished with calls that were never executed: s0, s1, s2, and 2 more."],
            [1, "1 of 4 runs reports finished with calls that were never executed: s0."],
            [0, ""],
        ],
    ),
)
@pytest.mark.slow
def test_runs_that_finish_with_unexecuted_calls_are_named(tmp_path: Path, silent: int, told: str) -> None:
    asks = {"tool_calls": [call("look", what="A")], "finish_reason": "stop"}
    drops = [replace(play([asks], policy="naive"), run_id=f"s{n}") for n in range(silent)]
    save_runs([*drops, *(replace(play(steps("A B")), run_id=f"good-{n}") for n in range(3))], tmp_path / "runs.jsonl")
    made = study(tmp_path / "runs.jsonl")
    sentences = [sentence for sentence in Quality(made).sentences() if "never executed" in sentence]
    assert [sentence.startswith(told) for sentence in sentences] == ([True] if told else [])
    printed = " ".join(told_of(made).split())
    assert (told in printed) is True
    assert ("never executed" in printed) is bool(told)
    assert as_data(made)["data"]["finished_unexecuted"] == [f"s{n}" for n in range(silent)]
    assert ("never executed" in page_of(made)) is bool(told)


def test_recording_of_several_agents_keeps_them_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_no_figures(monkeypatch)
    runs = [replace(bl.run_sync(None, "x", model=bl.ScriptedModel(["Done."])), agent=name, run_id=f"{name}{n}",
                    success=name == "a") for name in "ab" for n in range(2 + (name == "a"))]  # fmt: skip
    logs = tmp_path / "runs.jsonl"
    bl.save_runs(runs, logs)
    assert main(["whatif", str(logs), "--max-steps", "5,none"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Whose runs these are") < shown.index("By agent") < shown.index("What this rests on")
    assert re.search(r"^ +boolab +a +3 +3 +3 of 3$", shown, re.MULTILINE)
    assert re.search(r"^ +boolab +b +2 +2 +0 of 2$", shown, re.MULTILINE)
    assert "A limit is for one agent" in shown
    assert main(["whatif", str(logs), "--max-steps", "5,none", "--by", "all"]) == 0
    assert "what is here is about all of them" in " ".join(capsys.readouterr().out.split())
    assert main(["report", str(logs), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert page.index("Set no limit yet for any of 2 agents") < page.index("A limit is for one agent")
    assert "% of the 2 agents" in page
    bl.save_runs(runs[:3], logs)
    capsys.readouterr()
    assert main(["whatif", str(logs), "--max-steps", "5,none"]) == 0
    assert "Whose runs these are" not in capsys.readouterr().out


@pytest.mark.slow
def test_declared_limits_have_a_section_if_there_are_any(tmp_path: Path) -> None:
    write_sessions(tmp_path)
    assert "The limits that were set" not in page_of(study(tmp_path))
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"env": {"CLAUDE_CODE_MAX_TURNS": "1"}}')
    page = Page(page_of(study(tmp_path)))
    assert "3 of 3 runs went beyond a limit that was set" in page.text
    assert ("details", {"class": "fold", "id": "declared"}) in page.tags
    assert page.open == []


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_terminal_shows_how_far_the_page_is(
    stream: type[io.StringIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "log.json", [1, 2, 3])
    monkeypatch.setattr(progress, "DELAY_S", 0)
    monkeypatch.setattr(sys, "stderr", stream())
    page_of(study_of([str(log)], Question(), progress=True), progress=True)
    shown = sys.stderr.getvalue()  # type: ignore[union-attr] # it is the stream above
    for bar in ("comparing limits: 100%", "writing the page: 100%"):
        assert (bar in shown) == (stream is Terminal)


def test_mixed_logs_keep_their_agents_and_data_sets_apart() -> None:
    whole = play(steps("a b"))
    runs = [
        replace(whole, run_id=f"{agent}{data}{source}", agent=agent, source=source, settings={"set": data})
        for agent, source in (("one", "claude_code"), ("two", "swe_agent"), ("three", "swe_agent"))
        for data in ("a", "b")
    ]
    found = study_of_runs(runs, Question(), Reading(tuple(runs), ()))
    assert found.keys == ("source", "agent", "set")  # the sources count limits in different ways
    assert len(found.found.frame) == 6
    assert study_of_runs(runs[:2], Question(), Reading(tuple(runs[:2]), ())).keys == ("set",)
    assert study_of_runs(runs[:1], Question(), Reading(tuple(runs[:1]), ())).keys == ()


def test_what_is_left_out_of_the_reasons_is_named() -> None:
    whole = play(steps("a b"))
    runs = [replace(whole, run_id=agent, agent=agent, source="claude_code", success=None) for agent in "abcdefgh"]
    found = study_of_runs(runs, Question(), Reading(tuple(runs), ()))
    shown = " ".join(told_of(found).split())
    assert "further groups" in shown
    full = " ".join(told_of(found, full=True).split())
    assert all(f"{agent}: Set no limit yet:" in full for agent in "abcdefgh")
    last = max(agent for agent in "abcdefgh" if f"{agent}: Set no limit yet:" in shown)
    left = [agent for agent in "abcdefgh" if agent > last]
    assert f"{len(left)} further groups" in shown


def test_a_list_says_of_a_parent_that_its_subagent_is_stopped() -> None:
    child = replace(play(steps("a b c d")), run_id="lead/scout", parent_run_id="lead", agent="scout", success=None)
    lead = replace(play(steps("a b")), run_id="lead", agent="lead", success=None)
    lead, child = (replace(run, source="claude_code", events=()) for run in (lead, child))
    found = study_of_runs([lead, child], Question(policy="boocode"), Reading((lead, child), ()))
    cuts = {found.units[cut.unit].run.agent: cut for cut in found.cuts("max_steps", [3])[3]}
    assert {agent: (cut.because, cut.step) for agent, cut in cuts.items()} == {
        "lead": ("subagent", 1),
        "scout": ("itself", 3),
    }
    table = RunBook(found, transcripts=False).cuts(list(cuts.values()), "steps")
    assert "what its subagent needs" in str(table)
    assert "that of its parent" in str(table)
    assert listed_cuts(found, "step cap 3", [cuts["scout"]]).title == "step cap 3: 1 run stopped"
    assert "whose subagent is stopped" in told_of(found, full=True).replace("\n", " ")
    assert found.tasks == [lead.task] * 2


def test_a_limit_of_a_subagent_lists_its_runs_and_no_parent() -> None:
    child = replace(play(steps("a b c d")), run_id="lead/scout", parent_run_id="lead", agent="scout", success=None)
    lead = replace(play(steps("a b")), run_id="lead", agent="lead", success=None)
    lead, child = (replace(run, source="claude_code", events=()) for run in (lead, child))
    found = study_of_runs([lead, child], Question(), Reading((lead, child), ()))
    (cut,) = found.cuts("max_steps", [3])[3]
    assert (found.units[cut.unit].run.agent, cut.because, cut.step) == ("scout", "itself", 3)
    assert "A limit is that of one agent of a family, and of no other" in told_of(found, full=True).replace("\n", " ")


@pytest.mark.slow
def test_page_names_groups_left_out_and_full_report_has_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        replace(play(steps(pattern)), agent=f"agent-{k}", run_id=f"{k}-{pattern}", success=True)
        for k in range(8)
        for pattern in ("a", "a b")
    ]
    save_runs(runs, tmp_path / "runs.jsonl")
    monkeypatch.setattr("boolab.report.html_page.MAX_BYTES", 1)
    found = study(tmp_path / "runs.jsonl", by=("agent",))
    page = Page(page_of(found, inputs=LogInputs([str(tmp_path / "runs.jsonl")]), transcripts=False))
    for k in range(8):
        assert f"step cap for agent-{k}" in page.text
    assert "Not drawn" not in page.text  # more groups than lines in a figure have a panel each
    frames = [attributes for name, attributes in page.tags if name == "details" and "data-frame" in attributes]
    assert len(frames) == 1
    left = page.text[page.text.index("Left out to keep the page below 10 MB") :].split("\n")
    assert len(re.findall(r"agent-\d", left[0])) == 7
    command = shlex.split(next(line for line in left if line.startswith("boolab report")))
    assert {"--full", "--no-transcripts"} < set(command)
    assert main([*command[1:], "-o", str(tmp_path / "all.html")]) == 0
    whole = Page((tmp_path / "all.html").read_text("utf-8"))
    assert sum("data-frame" in attributes for _, attributes in whole.tags) == 8
    assert "Left out" not in whole.text
