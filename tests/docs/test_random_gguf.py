"""The model that docs/llama_cpp.md serves: what can be held of it without llama.cpp."""

import re
import subprocess
import sys
from pathlib import Path

import jinja2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.random_gguf import CHAT_TEMPLATE, END, vocabulary, weights
from tests.support.project import ROOT


def test_all_weights_fit_into_less_than_a_megabyte() -> None:
    assert 100_000 < sum(tensor.nbytes for tensor in weights(0).values()) < 900_000


def test_seed_gives_the_same_weights_and_another_seed_others() -> None:
    first, again, other = weights(7), weights(7), weights(8)
    assert first.keys() == again.keys() == other.keys()
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["output.weight"], other["output.weight"])


def test_every_byte_and_every_printable_letter_has_one_token() -> None:
    texts = [token.text for token in vocabulary()]
    assert len(set(texts)) == len(texts)
    assert {f"<0x{byte:02X}>" for byte in range(256)} <= set(texts)
    assert {chr(letter) for letter in range(33, 127)} <= set(texts)


@given(st.integers(0, 2**32))
def test_only_printable_and_end_tokens_have_their_own_logits(seed: int) -> None:
    rows = np.atleast_1d(weights(seed)["output.weight"].any(axis=1))
    for token, is_likely in zip(vocabulary(), rows, strict=True):
        assert is_likely == (token.text == END or not re.fullmatch(r"<.+>", token.text))


def test_without_the_package_gguf_it_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "random.gguf"
    code = (
        "import pathlib, sys; sys.modules['gguf'] = None; from benchmarks import random_gguf;"
        "random_gguf.write(pathlib.Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, path.exists()) == (1, False)
    assert "pip install gguf" in done.stderr


def test_chat_template_puts_tools_calls_and_results_in_turns() -> None:
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False).from_string(CHAT_TEMPLATE)  # noqa: S701 - no HTML
    prompt = template.render(
        tools=[{"type": "function", "function": {"name": "add"}}],
        messages=[
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "4711", "function": {"name": "add"}}]},
            {"role": "tool", "content": "3"},
        ],
        add_generation_prompt=True,
    )
    turns = [turn.removesuffix(f"{END}\n") for turn in prompt.split("<|im_start|>")[1:]]
    assert [turn.split("\n")[0] for turn in turns] == ["tools", "user", "assistant", "tool", "assistant"]
    assert turns[1] == "user\nAdd."
    assert turns[2] == 'assistant\n{"name": "add"}'
    assert "4711" not in prompt  # a server draws it at random
    assert turns[3:] == ["tool\n3", "assistant\n"]
