"""The examples of pages in docs run, and print what the pages say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from boolab.data import checkout


@pytest.mark.parametrize("name", ["steering", "recordings", "simulated", "widgets"])
def test_every_example_of_the_page_gives_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (checkout() / "docs" / f"{name}.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    runner = doctest.DocTestRunner(verbose=False)
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", f"docs/{name}.md", 0)
        runner.run(test, clear_globs=False)
        names = test.globs
    assert len(blocks) == page.count("```") // 2
    assert runner.tries > 0
    assert runner.failures == 0
