from __future__ import annotations

from boolab.logs.step_builder import arguments_text, goes_back, openai_arguments, withheld


def test_time_goes_back_below_the_last_one() -> None:
    assert goes_back(3, 5, 5)
    assert goes_back(5, 3, 5)
    assert not goes_back(5, 5, 5)
    assert not goes_back(6, 3, 5)


def test_empty_openai_arguments_are_an_object() -> None:
    assert openai_arguments("") == {}
    assert openai_arguments("null") == {}
    assert openai_arguments('{"path": "a"}') == '{"path": "a"}'


def test_empty_arguments_text_is_redacted() -> None:
    assert arguments_text({"path": "a"}) == '{"path":"a"}'
    assert arguments_text('{"path": "<redacted>"}') == "<redacted>"
    assert arguments_text(None) == "{}"
    assert arguments_text("") == "<redacted>"
    assert arguments_text({}) == "{}"


def test_arguments_are_withheld_if_all_are_redacted() -> None:
    assert withheld("<redacted>")
    assert withheld({"path": "[REDACTED]"})
    assert not withheld({"path": "a", "text": "<redacted>"})
