"""A model of random weights for llama.cpp: real inference, real usage figures and no sense, in under 1 MB.

The file is a llama of two layers in the format GGUF (github.com/ggml-org/ggml/blob/master/docs/gguf.md; the names of
its tensors are those of llama.cpp's src/llama-arch.cpp). Its vocabulary is a SentencePiece one: control tokens, all
bytes, printable ASCII, and syllables. Every token that is neither printable nor the end of a turn has a logit of 0,
below the dozens that a server samples from: the text is gibberish, but gibberish in ASCII, and it ends by itself at
times. The same seed gives the same file.

It needs the package `gguf`, which is no dependency of boolab. docs/llama_cpp.md has the whole recipe.

    python benchmarks/random_gguf.py random.gguf [--seed N]
"""

from __future__ import annotations

import argparse
import itertools
import string
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

N_LAYERS = 2
N_HEADS = 4
WIDTH = 64
HIDDEN_WIDTH = 128
CONTEXT = 16_384
"""Tokens that fit: a letter is about a token, so that the schemas of a few tools are some thousands."""

UNKNOWN, BEGIN, TURN, END = "<unk>", "<s>", "<|im_start|>", "<|im_end|>"
SPACE = "\u2581"
"""How SentencePiece writes a space."""

CHAT_TEMPLATE = """\
{% if tools %}<|im_start|>tools
{{ tools | tojson }}<|im_end|>
{% endif %}
{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""ChatML, with tools and calls as JSON; blocks take their line's end with them, as in Hugging Face's templates.

The ids of calls are left out: servers draw them at random, and a seed would give another run each time.
"""


class Token(NamedTuple):
    """A token of the vocabulary; `kind` is a name of `gguf.TokenType`."""

    text: str
    kind: str


def vocabulary() -> list[Token]:
    """All tokens in the order of their ids.

    Returns:
        Control tokens, every byte (so that any text can be read), printable ASCII, syllables.
    """
    printable = SPACE + string.digits + string.ascii_letters + string.punctuation
    consonants = sorted(set(string.ascii_lowercase) - set("aeiouy"))
    return [
        Token(UNKNOWN, "UNKNOWN"),
        *(Token(text, "CONTROL") for text in (BEGIN, TURN, END)),
        *(Token(f"<0x{byte:02X}>", "BYTE") for byte in range(256)),
        *(Token(text, "NORMAL") for text in printable),
        *(Token(first + second, "NORMAL") for first, second in itertools.product(consonants, "aeiou")),
    ]


def weights(seed: int) -> dict[str, NDArray[np.float32]]:
    """All tensors under llama.cpp's names.

    Args:
        seed: of the random numbers.

    Returns:
        Matrices of shape (out, in), normally distributed so that values keep their size from layer to layer.
    """
    rng = np.random.default_rng(seed)

    def matrix(n_out: int, n_in: int) -> NDArray[np.float32]:
        return np.asarray(rng.standard_normal((n_out, n_in)) / np.sqrt(n_in), np.float32)

    tokens = vocabulary()
    tensors = {"token_embd.weight": matrix(len(tokens), WIDTH)}
    for layer in range(N_LAYERS):
        parts = {
            "attn_norm": np.ones(WIDTH, np.float32),
            **{f"attn_{name}": matrix(WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
            "ffn_norm": np.ones(WIDTH, np.float32),
            "ffn_gate": matrix(HIDDEN_WIDTH, WIDTH),
            "ffn_up": matrix(HIDDEN_WIDTH, WIDTH),
            "ffn_down": matrix(WIDTH, HIDDEN_WIDTH),
        }
        tensors |= {f"blk.{layer}.{name}.weight": part for name, part in parts.items()}
    tensors["output_norm.weight"] = np.ones(WIDTH, np.float32)
    tensors["output.weight"] = matrix(len(tokens), WIDTH)
    tensors["output.weight"][[token.kind != "NORMAL" and token.text != END for token in tokens]] = 0
    return tensors


def write(path: Path, seed: int = 0) -> None:
    """Write the model.

    Args:
        path: the file to write; an older one is replaced.
        seed: of the weights.

    Raises:
        SystemExit: if the package `gguf` is missing.
    """
    try:
        import gguf
    except ImportError:
        msg = "random_gguf.py needs the package gguf, which boolab does not bring along: pip install gguf"
        raise SystemExit(msg) from None
    tokens = vocabulary()
    texts = [token.text for token in tokens]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(f"random weights, seed {seed}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN_WIDTH)
    writer.add_block_count(N_LAYERS)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_HEADS)
    writer.add_rope_dimension_count(WIDTH // N_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([-float(n) for n in range(len(tokens))])
    writer.add_token_types([gguf.TokenType[token.kind] for token in tokens])
    writer.add_unk_token_id(texts.index(UNKNOWN))
    writer.add_bos_token_id(texts.index(BEGIN))
    writer.add_eos_token_id(texts.index(END))
    writer.add_add_bos_token(value=True)
    writer.add_add_space_prefix(value=False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in weights(seed).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", type=Path, help="the file to write, such as random.gguf")
    parser.add_argument("--seed", type=int, default=0, help="of the weights (default: 0)")
    arguments = parser.parse_args()
    write(arguments.path, arguments.seed)
    print(f"{arguments.path}: {arguments.path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
