"""How an input is changed: as the document that it is, where its grammar knows it, and as bytes."""

import io
import json
import sqlite3
import warnings
import zipfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Any, Final, TypeAlias

from tests.fuzz.trees import NASTY, Raw, changed, parsed, written

Grammar: TypeAlias = Callable[[bytes, Random], bytes]
"""Changes one thing in a document. It may raise `ValueError` if the bytes are none."""

MOST_BYTES: Final = 2**16
"""The longest input that is tried; resource limits have tests of their own."""

TOKENS: Final = (
    *(
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
        b"\xe2\x80\xa8",
        b"\r",
        b"\n",
    ),
    *(b"\r\n", b"\n\n", b'"', b"\\", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"1e999", b"-1"),
    *(b"\x1f\x8b\x08", b"PK\x03\x04", b"PAR1", b"\x28\xb5\x2f\xfd"),
)
YAML_WORDS: Final = tuple(
    Raw(text)
    for text in (
        *(
            "&a [1]",
            "*a",
            "!!binary aGk=",
            "!!binary ___",
            "!!set {a, b}",
            "!!omap [a: 1]",
            "!!pairs [a: 1]",
            "!!float .nan",
        ),
        *(
            "!!timestamp 2001-01-01",
            "2001-01-01",
            "2001-12-14t21:59:43.10-05:00",
            "2001-99-99",
            "!!python/object:os.x {}",
        ),
        *("!!int abc", "!!bool maybe", "!!null x", "!!str 1", "!!seq {}", "!!map []", "!x 1", ".inf", "-.inf", ".nan"),
        *(
            "0x1F",
            "0o7",
            "0b1",
            "1_000",
            "190:20:30",
            "~",
            "{? [1]: 2}",
            "{? {a: 1} : 2}",
            "{[1]: 2}",
            "{1: 2, true: 3}",
        ),
        *("{<<: {a: 1}}", "{<<: 1}", "{<<: [1]}", "&b [*b]", "[&c {x: 1}, *c, *c]", "yes", "=", "''", "'\\ud800'"),
        *('"\\x00"', '"\\uD800"', '"\\UFFFFFFFF"', "|\n  a", ">\n  b", "none", "forever", "{1e3: 1}", "{.nan: 1}"),
    )
)


def mutated(data: bytes, chance: Random, grammar: Grammar, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """An input with one to four things changed."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if chance.random() < 0.7:
            try:
                data = grammar(data, chance)
                continue
            except (ValueError, RecursionError):
                pass
        data = _bytes(data, chance, others, tokens)
    return data[:MOST_BYTES]


def _bytes(data: bytes, chance: Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    how = chance.randrange(9)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + data[end:]
    if how == 2:
        return data[:at] + data[at:end] * chance.choice((2, 3, 10)) + data[end:]
    if how == 3 and others:
        other = chance.choice(others)
        return data[:at] + other[chance.randrange(len(other) + 1) :]
    if how == 4:
        text = data.decode("utf-8", "replace")
        return text.encode(chance.choice(["utf-16", "utf-16-le", "utf-32", "utf-7", "utf-8-sig"]), "replace")
    if how == 5:
        return chance.choice([*tokens, *TOKENS]) + data
    if how == 6:
        return data[:at] + chance.choice([*tokens, *TOKENS]) + data[at:]
    changed_bytes = bytearray(data)
    for _ in range(chance.randint(1, 8) if data else 0):
        changed_bytes[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(changed_bytes)


# ---------------------------------------------------------------- grammars


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", "surrogatepass")


def _encoded(tree: Any, chance: Random) -> bytes:
    return written(tree, ascii_only=chance.random() < 0.7).encode("utf-8", "surrogatepass")


def json_value(data: bytes, chance: Random, nasty: tuple[Raw, ...] = NASTY) -> bytes:
    """Change a JSON text."""
    return _encoded(changed(parsed(_decoded(data)), chance, nasty), chance)


def json_or_lines(data: bytes, chance: Random) -> bytes:
    """Change a JSON text, or one line of JSON Lines; or the lines' order."""
    try:
        return json_value(data, chance)
    except ValueError:
        return _in_one(data, b"\n", chance, json_value)


def _in_one(data: bytes, between: bytes, chance: Random, grammar: Grammar) -> bytes:
    """Change one of the pieces, or leave it out, repeat it, or put it elsewhere."""
    pieces = data.split(between)
    n = chance.randrange(len(pieces))
    how = chance.randrange(10)
    if how == 0:
        del pieces[n]
    elif how == 1:
        pieces.insert(chance.randrange(len(pieces)), pieces[n])
    elif how == 2:
        chance.shuffle(pieces)
    elif how == 3:
        pieces[n : n + 1] = [pieces[n]] * chance.choice((2, 50))
    else:
        pieces[n] = grammar(pieces[n], chance)
    return between.join(pieces)


def yaml_value(data: bytes, chance: Random) -> bytes:
    """Change a YAML text, which becomes one in flow style; or one of its lines."""
    if chance.random() < 0.3:
        return _in_one(data, b"\n", chance, _yaml_line)
    return _encoded(changed(parsed(_yaml_as_json(data)), chance, NASTY + YAML_WORDS), chance)


@lru_cache(maxsize=256)
def _yaml_as_json(data: bytes) -> str:
    """The same value: YAML takes milliseconds to read, and most inputs are made from few."""
    import yaml

    try:
        return json.dumps(yaml.safe_load(_decoded(data)))
    except Exception as error:
        raise ValueError(str(error)) from error


def _yaml_line(line: bytes, chance: Random) -> bytes:
    name, colon, _ = line.partition(b":")
    value = chance.choice(YAML_WORDS).encode()
    return name + colon + b" " + value if colon else line[: len(line) - len(line.lstrip())] + b"- " + value


def agents_text(data: bytes, chance: Random) -> bytes:
    """Change one front matter of a file of agents, or the order of the parts."""
    return _in_one(data, b"---\n", chance, yaml_value)


def events(data: bytes, chance: Random) -> bytes:
    """Change one server-sent event."""
    return _in_one(data, b"\n\n", chance, _event)


def _event(data: bytes, chance: Random) -> bytes:
    before, found, value = data.partition(b"data:")
    if not found:
        raise ValueError("no data")
    return before + found + b" " + json_value(value, chance)


def http_answer(data: bytes, chance: Random) -> bytes:
    """Change a header, or the body, of a whole HTTP answer; its stated length is made right, mostly."""
    top, found, body = data.partition(b"\r\n\r\n")
    if not found:
        raise ValueError("no headers")
    if chance.random() < 0.3:
        top = _in_one(top, b"\r\n", chance, _header)
    else:
        try:
            body = json_value(body, chance)
        except ValueError:
            body = events(body, chance)
    if chance.random() < 0.8:
        lines = [line for line in top.split(b"\r\n") if not line.lower().startswith(b"content-length")]
        top = b"\r\n".join([*lines, b"Content-Length: %d" % len(body)])
    return top + found + body


_HEADERS: Final = (
    *(
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 429 X",
        b"HTTP/1.1 500 X",
        b"HTTP/1.1 302 X",
        b"HTTP/1.1 100 X",
        b"HTTP/1.1 204 X",
    ),
    *(b"HTTP/9.9 999 X", b"Location: http://[::1", b"Location: /x", b"Retry-After: 1e400", b"Retry-After: -1"),
    *(b"Retry-After: nan", b"Retry-After: Mon, 99 Foo 99999 99:99:99 GMT", b"Content-Type: application/json", b": x"),
    *(b"Content-Type: text/event-stream; charset=\xff", b"Content-Encoding: gzip", b"Transfer-Encoding: chunked"),
    *(
        b"Content-Type: text/event-stream; charset=utf-16",
        b"retry-after-ms: 99999999999999999999",
        b"x-should-retry: false",
    ),
    *(b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"\xff\xfe: \x00", b"Connection: upgrade"),
)


def _header(_line: bytes, chance: Random) -> bytes:
    return chance.choice(_HEADERS)


def zip_archive(data: bytes, chance: Random) -> bytes:
    """Change one JSON member of a zip file, or its name."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception as error:
        raise ValueError(str(error)) from error
    if not members:
        raise ValueError("nothing in it")
    n = chance.randrange(len(members))
    name, content = members[n]
    how = chance.randrange(8)
    if how == 0:
        del members[n]
    elif how == 1:
        members[n] = (chance.choice([name + "x", "../" + name, "samples/9_epoch_9.json", "header.json"]), content)
    elif how == 2:
        members.append((f"copy/{name}", content))
    else:
        members[n] = (name, json_value(content, chance))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members of one name: on purpose
        for member, kept in members:
            archive.writestr(zipfile.ZipInfo(member), kept)
    return out.getvalue()


def parquet_table(data: bytes, chance: Random) -> bytes:
    """Change one value, column or row of a Parquet file; of columns that hold JSON, often something inside."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        columns = parquet.read_table(pa.BufferReader(data)).to_pydict()
    except Exception as error:
        raise ValueError(str(error)) from error
    names = [name for name in columns if columns[name]]
    if not names:
        raise ValueError("nothing in it")
    records = [name for name in names if name.endswith("_record")]
    name = chance.choice(records if records and chance.random() < 0.6 else names)
    values = columns[name]
    n = chance.randrange(len(values))
    how = chance.randrange(10)
    if how == 0:
        del columns[name]
    elif how == 1:
        columns[f"{name}_"] = columns.pop(name)
    elif how == 2:
        columns[name] = [str(value) for value in values]
    elif how == 3:
        columns = {key: [some[n], *some] for key, some in columns.items()}
    elif how == 4:
        columns = {key: some[:n] + some[n + 1 :] for key, some in columns.items()}
    elif isinstance(values[n], str) and values[n][:1] in ("{", "["):
        columns[name] = [
            *values[:n],
            json_value(values[n].encode(), chance).decode("utf-8", "replace"),
            *values[n + 1 :],
        ]
    else:
        columns[name] = [*values[:n], chance.choice(_CELLS), *values[n + 1 :]]
    try:
        table = pa.table(columns)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(str(error)) from error
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


_CELLS: Final[tuple[Any, ...]] = (None, 0, -1, 1, 2**63 - 1, -(2**63), 1.5, float("nan"), "", "x", "{}", b"\xff", True)


def sqlite_file(data: bytes, chance: Random) -> bytes:
    """Change one value in a SQLite file, whatever its schema says, or the schema."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.deserialize(data)
        connection.execute("PRAGMA journal_mode = MEMORY")  # of one in memory: a log cannot be opened there
        for pragma in ("ignore_check_constraints", "writable_schema"):
            connection.execute(f"PRAGMA {pragma} = ON")
        _change_rows(connection, chance)
        return connection.serialize()
    except (sqlite3.Error, OverflowError, MemoryError, UnicodeError) as error:
        raise ValueError(str(error)) from error
    finally:
        connection.close()


def _change_rows(connection: sqlite3.Connection, chance: Random) -> None:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    tables += ["sqlite_master"]
    table = chance.choice(tables)
    how = chance.randrange(12)
    if how == 0:
        connection.execute(
            f"PRAGMA {chance.choice(('user_version', 'application_id'))} = {chance.choice((0, 1, -1, 99))}"
        )
        return
    if how == 1 and table != "sqlite_master":
        connection.execute(f'DROP TABLE "{table}"')
        return
    names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    name = chance.choice(names)
    if how == 2 and table != "sqlite_master":
        rename = chance.random() < 0.5
        connection.execute(
            f'ALTER TABLE "{table}" ' + (f'RENAME COLUMN "{name}" TO x' if rename else f'DROP COLUMN "{name}"')
        )
        return
    keys = "run_id" if "run_id" in names else names[0]
    rows = connection.execute(f'SELECT DISTINCT "{keys}" FROM "{table}"').fetchall()  # noqa: S608 - our own
    if not rows:
        raise ValueError("no rows")
    (key,) = chance.choice(rows)
    where = f'WHERE "{keys}" IS ?'
    if how == 3:
        connection.execute(f'DELETE FROM "{table}" {where}', (key,))  # noqa: S608
        return
    row = connection.execute(f'SELECT "{name}" FROM "{table}" {where}', (key,)).fetchone()  # noqa: S608
    if row is None:  # a damaged index leads to no row
        raise ValueError("no row")
    (value,) = row
    new: Any = chance.choice(_CELLS)
    if isinstance(value, str) and value[:1] in ("{", "[", '"') and chance.random() < 0.8:
        new = json_value(value.encode(), chance).decode("utf-8", "replace")
    if how == 4:
        new = chance.choice(connection.execute(f'SELECT "{name}" FROM "{table}"').fetchall())[0]  # noqa: S608
    connection.execute(f'UPDATE OR REPLACE "{table}" SET "{name}" = ? {where}', (new, key))  # noqa: S608
