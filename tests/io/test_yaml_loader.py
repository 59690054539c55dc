"""YAML from people."""

import pytest

from boolab.io.yaml_loader import MAX_CHARS, DocumentError, read_yaml


def test_every_value_knows_its_line() -> None:
    text = "# a comment\na: 1\nlist:\n  - x\n  - y: {z: 2}\n\nlast: |\n  text\n"
    document = read_yaml(text, first_line=11)
    assert document.data == {"a": 1, "list": ["x", {"y": {"z": 2}}], "last": "text\n"}
    places = (["a"], ["list"], ["list", 0], ["list", 1, "y", "z"], ["last"])
    assert [document.line(place) for place in places] == [12, 13, 14, 15, 17]


def test_line_of_a_missing_path_is_that_of_its_parent() -> None:
    document = read_yaml("a:\n  b: 1\n")
    assert [document.line(p) for p in (["a", "nope"], ["nope"], ["a", "b", "c"], [])] == [1, 1, 2, 1]
    assert read_yaml("").line(["a"]) == 1
    assert read_yaml("").data is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: [1\nb: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' is here twice"),
        ("a: &x\n  b: *x\n", 1, "a YAML alias contains itself"),
        ("[" * 3000, 1, "the YAML is nested too deeply"),
        ("- " * 3000, 1, "the YAML is nested too deeply"),
        ("a: !!python/name:os.system\n", 1, "the tag !!python/name:os.system is not accepted: expected plain values"),
        ("a:\n  - !!bool maybe\n", 2, "the tag !!bool is not accepted"),
        ("a: 1\nb: !!timestamp soon\n", 2, "the tag !!timestamp is not accepted"),
        ("a: !!set {b, c}\n", 1, "the tag !!set is not accepted"),
        ('a: "\\UFFFFFFFF"', 1, "not valid YAML"),
        ("a: 2024-13-45\n", 1, "not valid YAML"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        ("a: \x00", 1, "not valid YAML"),
    ],
)
def test_what_is_not_acceptable_is_an_error_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_yaml(text)
    assert message in caught.value.message
    assert caught.value.line == line


def test_anchors_and_merges_are_read() -> None:
    assert read_yaml("a: &x {b: 1}\nc: {<<: *x, d: 2}\n").data == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}


def test_a_text_beyond_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(DocumentError, match="characters of YAML, more than the 4,000,000 that are read"):
        read_yaml("x" * (MAX_CHARS + 1))


def test_a_bomb_of_aliases_is_refused_without_being_expanded() -> None:
    rungs = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))
    with pytest.raises(DocumentError, match="expands to more than 1,000,000 values"):
        read_yaml(f"a0: &a0 [x]\n{rungs}\n")


def test_redundant_or_text_tag_is_accepted() -> None:
    assert read_yaml("{a: !!int 1, b: !!str 2, c: !!seq [x], d: ! y}").data == {"a": 1, "b": "2", "c": ["x"], "d": "y"}
