"""What the JavaScript of a widget reads of its data."""

import re
from collections import Counter
from collections.abc import Iterable

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def unread_keys(keys: Iterable[str], script: str) -> list[str]:
    """The keys that a script takes out of no object, by a dot or by destructuring.

    Example:
        >>> unread_keys(["a", "b", "c"], "const { a } = data; use(data.b);")
        ['c']
    """
    code = _COMMENT.sub("", script)
    return [key for key in keys if not re.search(rf"\.{key}\b|[{{,]\s*{key}\s*[,}}:=]", code)]


def unused_functions(script: str) -> list[str]:
    r"""The functions at the top of a script that nothing in it names again.

    Example:
        >>> unused_functions("function a() {}\nconst b = () => a();")
        ['b']
    """
    code = _COMMENT.sub("", script)
    names = re.findall(r"^(?:async )?function (\w+)|^const (\w+) = (?:async )?\(", code, re.MULTILINE)
    counts = Counter(re.findall(r"\w+", code))
    return [name for pair in names for name in pair if name and counts[name] == 1]
