"""Another program: every 2 ms it reads a JSON file, adds a key, and writes it, until its input ends.

It prints the keys. `python -m tests.io.other_writer PATH HOW`, where HOW is rename, truncate or update.
"""

import json
import select
import sys
from pathlib import Path


def add_key(path: Path, how: str, key: str) -> None:
    if how == "update":  # open from the reading to the writing
        with path.open("r+") as file:
            data = json.load(file) | {key: 1}
            file.seek(0)
            json.dump(data, file)
            file.truncate()
        return
    text = json.dumps(json.loads(path.read_text()) | {key: 1})
    if how == "truncate":
        path.write_text(text)
        return
    beside = path.with_suffix(".other")
    beside.write_text(text)
    beside.replace(path)


def main(path: Path, how: str) -> None:
    keys: list[str] = []
    while not select.select([sys.stdin], [], [], 0.002)[0]:
        add_key(path, how, f"k{len(keys)}")
        keys.append(f"k{len(keys)}")
        if len(keys) == 1:
            sys.stdout.write("began\n")
            sys.stdout.flush()
    sys.stdout.write(json.dumps(keys))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
