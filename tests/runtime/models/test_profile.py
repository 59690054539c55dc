"""Profiles of simulated agents: what a file may say, and how it is told what is wrong."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from boolab.errors import ProfileError
from boolab.runtime.models.profile import Profile, shipped_profiles
from boolab.runtime.models.profile_parts import Distribution, Piece
from boolab.runtime.models.simulated import SimulatedModel
from tests.support.cases import cases

FULL = """\
name: coder
description: Everything that a profile can say.
start: {look: 3, edit: 1}
tools:
  look: {next: {look: 2, edit: 1}, calls: {1: 8, 3: 2}, latency_ms: {median: 20, sigma: 0.5}}
  edit: {error_rate: 0.1, after_error: {retry: 1, fails_again: 0.5}, finish_factor: 2}
calls: {1: 1, 2: 1}
finish:
  hazard: [{from_step: 1, probability: 0}, {from_step: 4, probability: 0.12}]
  tool: submit
loop: {rate: 0.01, period: {1: 3, 2: 1}, again: 0.8}
revisit: {rate: 0.1, same_result: 0.5}
tokens: {prompt: 4000, output: {quantiles: [1, 180, 3000]}, growth: {median: 5, zeros: 0.5}, cached_share: 0.9}
price: {input: 3, cached: 0.3, output: 15}
latency: {response_ms: {median: 3000, sigma: 1, most: 60000}, first_token_ms: 400}
success: {finished: 0.5, cut: 0.12, cut_from_step: 5}
difficulties:
  easy: {share: 0.4, hazard_factor: 1.5, finished: 0.9}
  hard: {share: 0.6, cut: 0.05}
tasks: {Fix the test: hard}
reminders: [{turns_left: 3, factor: 2, least: 0.1}]
sources: {tools.edit.error_rate: counted, success: published}
assumptions: {reminders: nobody knows}
"""


def first_of(pair: tuple[int, float]) -> int:
    return pair[0]


def written(folder: Path, text: str) -> Path:
    path = folder / "a profile.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_gives_every_figure(tmp_path: Path) -> None:
    profile = Profile.load(written(tmp_path, FULL))
    assert (profile.name, profile.finish.tool, profile.tools["edit"].finish_factor) == ("coder", "submit", 2)
    assert [profile.hazard_at(step) for step in (1, 3, 4, 99)] == [0, 0, 0.12, 0.12]
    assert profile.shares_after("look") == {"look": pytest.approx(2 / 3), "edit": pytest.approx(1 / 3)}
    assert profile.shares_after("edit") == profile.shares_after(None) == {"look": 0.75, "edit": 0.25}
    assert (profile.calls_of("look"), profile.calls_of("edit")) == ({1: 0.8, 3: 0.2}, {1: 0.5, 2: 0.5})
    assert profile.difficulty_of("Fix the test") == "hard"
    assert profile.tokens is not None
    assert profile.tokens.prompt == Distribution(median=4000)
    assert repr(profile) == f"<Profile coder: 2 tools, {profile.digest[:8]}>"


def test_profile_needs_only_tools_and_is_named_by_its_file(tmp_path: Path) -> None:
    profile = Profile.load(written(tmp_path, "tools: {look: {}}"))
    assert (profile.name, profile.shares_after(None), profile.calls_of("look")) == ("a profile", {"look": 1}, {1: 1})
    assert (profile.tokens, profile.price, profile.success, profile.difficulty_of("x")) == (None, None, None, None)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("tools: {}", 1, "tools: Dictionary should have at least 1 item"),
        ("name: a\ntols: {}", 2, "tols: there is no such field; accepted here: after_error, assumptions, calls, "),
        (
            "tools:\n  a: {nxt: {}}",
            2,
            "tools.a.nxt: there is no such field; accepted here: after_error, argument_chars",
        ),
        (
            "tools:\n  a:\n    latency_ms: {median: 1, sgma: 2}",
            3,
            "accepted here: median, most, quantiles, sigma, zeros",
        ),
        ("tools:\n  a:\n    next: {b: 1}", 3, "tools.a.next.b: there is no tool 'b' in this profile; tools: a"),
        ("tools: {a: {}}\nstart: {a: 0}", 2, "start: expected at least one share above 0"),
        ("tools: {a: {calls: {0: 1}}}", 1, "tools.a.calls.0: Input should be greater than 0"),
        ("tools:\n  a:\n    error_rate: 1.5", 3, "tools.a.error_rate: Input should be less than or equal to 1"),
        ("tools: {a b: {}}", 1, "tools.a b: String should match pattern"),
        (
            "tools: {a: {}}\nfinish:\n  hazard: [{from_step: 2, probability: 0}]",
            3,
            "expected from_step to begin with 1",
        ),
        (
            "tools: {a: {}}\nfinish:\n  hazard: 2",
            3,
            "finish.hazard.0.probability: Input should be less than or equal to 1",
        ),
        ("tools: {a: {}}\nfinish: {hazard: true}", 2, "finish.hazard: Input should be a valid list"),
        ("tools: {a: {}}\nfinish: {tool: a}", 2, "finish.tool: 'a' is one of `tools`; expected another name"),
        ("tools: {a: {}}\ntext_chars: {sigma: 1}", 2, "text_chars: give a number, or either median (with sigma) or"),
        ("tools: {a: {}}\ntext_chars: {quantiles: [2, 1]}", 2, "quantiles [2.0, 1.0] do not ascend"),
        ("tools: {a: {}}\ntext_chars: {quantiles: [1, 2], sigma: 1}", 2, "sigma belongs to median"),
        (
            "tools: {a: {}}\ntext_chars: {median: 1, sigma: 1729000.0}",
            2,
            "sigma: Input should be less than or equal to 10",
        ),
        ("tools: {a: {}}\ntext_chars: 1.0e+300", 2, "text_chars.median: Input should be less than or equal to 9007"),
        ("tools: {a: {next: {a: 1.0e+308}}}", 1, "tools.a.next.a: Input should be less than or equal to 9007"),
        ("tools: {a: {}}\ntext_chars: -1", 2, "text_chars.median: Input should be greater than or equal to 0"),
        ("tools: {a: {}}\nafter_error: {vary: 0}", 2, "after_error: expected at least one share above 0"),
        ("tools: {a: {}}\ntasks:\n  go: easy", 3, "there is no difficulty 'easy' in this profile; it has: none"),
        ("tools: {a: {}}\ndifficulties: {x: {share: 0}}", 2, "difficulties: expected at least one share above 0"),
        ("tools: {a: {}}\nreminders: [{turns_left: 1}, {turns_left: 1}]", 2, "expected each number of turns left once"),
        ("tools: {a: {}}\nsources:\n  tools.b: x", 3, "there is no field 'tools.b'; expected a place such as"),
        ("tools: {a: {}}\nassumptions: {loop.rat: x}", 2, "there is no field 'loop.rat'"),
        ("- 1", 1, "expected a mapping with 'tools', found list"),
        ("", 1, "expected a mapping with 'tools', found NoneType"),
        ("tools: [", 1, "not valid YAML"),
        ("tools: {a: {}}\ntools: {b: {}}", 2, "the key 'tools' is here twice"),
    ],
)
def test_errors_name_file_and_line_and_what_is_accepted(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        Profile.load(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read_is_a_profile_error(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="cannot be read: No such file"):
        Profile.load(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="is not UTF-8 text"):
        SimulatedModel.load(tmp_path / "b.yaml")


def test_profile_name_loads_a_file_before_a_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, path in shipped_profiles().items():
        assert SimulatedModel.load(name).profile == Profile.load(path)
    with pytest.raises(
        ProfileError, match="codr: there is no such file and no shipped profile with that name; shipped: "
    ):
        Profile.load("codr")
    monkeypatch.chdir(tmp_path)
    Path("codr").write_text("tools: {a: {}}")
    assert [*Profile.load("codr").tools] == ["a"]


def test_plain_values_that_are_wrong_are_a_profile_error_too() -> None:
    with pytest.raises(ProfileError, match="^tools: Field required$"):
        Profile.of({})


def test_a_profile_is_never_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Profile.of({"tools": {"a": {}}}).name = "b"


probabilities = st.floats(0, 1)
weights = st.floats(0.001, 1000)
amounts = st.one_of(
    st.integers(0, 10**6),
    st.fixed_dictionaries(
        {"median": weights}, optional={"sigma": st.floats(0, 3), "zeros": probabilities, "most": weights}
    ),
    st.fixed_dictionaries({"quantiles": st.lists(weights, min_size=2, max_size=9).map(sorted)}),
)
counts = st.dictionaries(st.integers(1, 9), weights, min_size=1)
hazards = st.one_of(
    probabilities,
    st.dictionaries(st.integers(2, 500), probabilities).map(
        lambda rest: [{"from_step": step, "probability": rest.get(step, 0.5)} for step in sorted({1, *rest})]
    ),
)
NAMES = ("a", "b.c", "D-1")
shares = st.dictionaries(st.sampled_from(NAMES), weights, min_size=1)
tools = st.fixed_dictionaries(
    {},
    optional={
        "next": shares, "calls": counts, "error_rate": probabilities, "finish_factor": weights, "result_chars": amounts,
        "after_error": st.fixed_dictionaries({"retry": weights}, optional={"fails_again": probabilities}),
    },
)  # fmt: skip
profiles = st.fixed_dictionaries(
    {"tools": st.fixed_dictionaries(dict.fromkeys(NAMES, tools))},
    optional={
        "name": st.text(), "description": st.text(), "start": shares, "calls": counts,
        "finish": st.fixed_dictionaries({"hazard": hazards}),
        "loop": st.fixed_dictionaries({"rate": probabilities, "period": counts}),
        "tokens": st.fixed_dictionaries({"prompt": amounts, "output": amounts}),
        "tasks": st.dictionaries(st.text(), st.just("hard")),
        "sources": st.dictionaries(st.sampled_from(["tools", "tools.b.c", "loop.rate", "finish.hazard.0"]), st.text()),
    },
).map(lambda data: data | {"difficulties": {"hard": {}}})  # fmt: skip


@given(data=profiles)
@cases(240)
def test_what_is_saved_is_loaded_as_the_same(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    profile = Profile.of(data)
    path = tmp_path_factory.mktemp("profiles") / "saved.yaml"
    profile.save(path)
    loaded = Profile.load(path)
    assert loaded == profile
    assert loaded.digest == profile.digest == pickle.loads(pickle.dumps(profile)).digest  # noqa: S301 - our own


@given(median=st.floats(1, 1e6), sigma=st.floats(0.01, 3), p=st.floats(0.001, 0.999), zeros=st.floats(0, 0.9))
def test_a_median_and_a_sigma_are_a_lognormal_distribution(median: float, sigma: float, p: float, zeros: float) -> None:
    value = Distribution(median=median, sigma=sigma, zeros=zeros).quantile(p)
    expected = 0 if p <= zeros else stats.lognorm(sigma, scale=median).ppf((p - zeros) / (1 - zeros))
    assert value == pytest.approx(expected, rel=1e-6)


def test_quantiles_are_linear_in_between_and_a_most_cuts_off() -> None:
    given = Distribution(quantiles=[0, 100, 1000], most=700)
    assert [given.quantile(p) for p in (0.25, 0.5, 0.75, 0.99)] == [50, 100, 550, 700]
    assert Distribution(median=40).table(3) == (40, 40, 40)
    table = Distribution(quantiles=[0, 100]).table(100)
    assert (table[0], table[-1]) == (0, 100)
    assert sum(table) / 100 == pytest.approx(50, abs=1)


def test_the_digest_tells_figures_apart_and_nothing_else() -> None:
    one = {"tools": {"a": {"next": {"a": 1, "b": 2}}, "b": {}}}
    turned = {
        "name": "x",
        "description": "y",
        "tools": {"b": {}, "a": {"next": {"b": 2, "a": 1}}},
        "sources": {"tools": "z"},
    }
    other = {"tools": {"a": {"next": {"a": 1, "b": 3}}, "b": {}}}
    digests = [Profile.of(data).digest for data in (one, turned, other)]
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 32


def test_profile_vary_keeps_other_parts_and_sources() -> None:
    coder = Profile.load("coder")
    varied = coder.vary(success={"cut": 0}, finish={"hazard": 0.1}, name="plain")
    assert (varied.name, varied.hazard_at(1), varied.finish.tool) == ("plain", 0.1, coder.finish.tool)
    never = [Piece(from_step=1, probability=0)]
    assert varied.success == coder.success.model_copy(update={"cut": never})  # type: ignore[union-attr] # it has one
    assert coder.assumptions.keys() - varied.assumptions.keys() == {"success.cut", "finish.hazard.0", "finish.hazard.3"}
    assert coder.sources.keys() - varied.sources.keys() == {"finish.hazard"}
    assert coder.vary() == coder


def test_profile_vary_replaces_a_field_and_its_assumptions() -> None:
    varied = Profile.load("coder").vary(reminders=[])
    assert varied.reminders == []
    assert "reminders" not in varied.assumptions
    with pytest.raises(ProfileError, match="remainders"):
        varied.vary(remainders=[])


def test_profile_success_as_a_number_equals_one_piece() -> None:
    one = {"tools": {"look": {}}, "success": {"finished": 0.5}}
    other = {**one, "success": {"finished": [{"from_step": 1, "probability": 0.5}]}}
    assert Profile.of(one) == Profile.of(other)
    assert Profile.of(one).digest == Profile.of(other).digest


def test_profile_success_depends_on_the_difficulty() -> None:
    pieces = [{"from_step": 1, "probability": 0.8}, {"from_step": 5, "probability": 0.4}]
    kinds = {"hard": {"finished": [{"from_step": 1, "probability": 0.3}]}, "usual": {"cut": pieces}}
    data = {"tools": {"look": {}}, "success": {"finished": pieces, "cut": 0.1, "cut_from_step": 3}}
    profile = Profile.of({**data, "difficulties": kinds})
    assert [profile.success_at(step, finished=True) for step in (1, 4, 5, 99)] == [0.8, 0.8, 0.4, 0.4]
    assert [profile.success_at(step, finished=False) for step in (0, 2, 3)] == [0, 0, 0.1]
    assert [profile.success_at(7, finished=True, difficulty=name) for name in kinds] == [0.3, 0.4]
    assert [profile.success_at(4, finished=False, difficulty=name) for name in kinds] == [0.1, 0.8]
    assert Profile.of({"tools": {"look": {}}}).success_at(1, finished=True) is None


_pieces = st.lists(st.tuples(st.integers(2, 9), st.sampled_from([0.0, 0.2, 0.5, 1.0])), max_size=3, unique_by=first_of)


@given(st.tuples(_pieces, _pieces), st.integers(1, 5), st.booleans())
def test_limits_never_help_if_no_later_end_succeeds_less_often(
    both: tuple[list[tuple[int, float]], ...], start: int, of_difficulty: bool
) -> None:
    finished, cut = (
        [{"from_step": at, "probability": chance} for at, chance in sorted([(1, 0.5), *some])] for some in both
    )
    success = {"finished": finished, "cut": cut, "cut_from_step": start}
    kinds = {"own": {"finished": finished, "cut": cut}} if of_difficulty else {}
    usual = {"finished": 1, "cut": 0, "cut_from_step": start} if of_difficulty else success
    profile = Profile.of({"tools": {"look": {}}, "success": usual, "difficulties": kinds})
    name = next(iter(kinds), None)
    by_step = [
        [profile.success_at(s, finished=end, difficulty=name) or 0 for s in range(1, 16)] for end in (True, False)
    ]
    expected = all(by_step[1][c] <= min(by_step[0][c + 1 :] + by_step[1][c + 1 :]) for c in range(14))
    assert profile.limits_never_help == expected
