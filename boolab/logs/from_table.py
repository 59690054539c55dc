"""Runs of a table that another program made: a row for each step, or for each call."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import REDACTED, Usage
from boolab.errors import ReadWarning, RunFormatError, SettingError, install, near
from boolab.frames.dtypes import Cell, is_missing
from boolab.frames.labels import flag_of
from boolab.io.checks import repr_of
from boolab.io.files import open_file, user_path
from boolab.io.json_input import JSON, json_text, micro, parse
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import epoch_ms
from boolab.logs.step_builder import StepBuilder, is_unreadable

if TYPE_CHECKING:
    import pandas as pd

SOURCE: Final = "table"
TURN: Final = "turn"
"""The argument whose column has to be named."""
TABLES: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
"""The ends of the names of tables in text."""
SUFFIXES: Final = (*TABLES, ".parquet")
_MAX_SECONDS: Final = 1e11
"""A larger number is milliseconds since 1970."""
_FIRST_TIME: Final = datetime(1973, 1, 1, tzinfo=UTC)
"""Earlier times are those since the run began."""

Row: TypeAlias = Mapping[str, Cell]
"""The cells of a row by argument, and its index as `row`."""


def runs_from_table(
    table: pd.DataFrame | str | Path,
    *,
    run: str = "run_id",
    step: str | None = None,
    turn: str | None = None,
    tool: str | None = None,
    arguments: str | None = None,
    result: str | None = None,
    error: str | None = None,
    success: str | None = None,
    tokens: str | None = None,
    input_tokens: str | None = None,
    output_tokens: str | None = None,
    cost: str | None = None,
    time: str | None = None,
    duration: str | None = None,
    text: str | None = None,
    task: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    censored: str | None = None,
    settings: Sequence[str] = (),
) -> list[Run]:
    """Make runs of a table with a row for each step, or for each call.

    Each argument names a column. Where it is left out, it is the column of the argument's own name, if there is one; of
    `cost` also `cost_usd`; `turn` has to be named. What has no column, or no value, is unknown.

    Args:
        table: A DataFrame, or the path of a CSV, TSV or Parquet file.
        run: The run's id. The rows of a run need not stand together.
        step: The number of the step within its run, from 0 or 1. Rows with one number are the calls of one step, and
            stand together. Without such a column, each row is a step, in the order of the rows.
        turn: The number of the step's turn, from 0 or 1, where a run is a session with several messages of the user:
            each new number opens one. It has to be named, as many tables call their steps turns; where it is not, a run
            is one turn.
        tool: The name of the tool that is called; missing in a step without a call.
        arguments: The arguments of the call: JSON text, another text, or a mapping.
        result: The text of the call's result.
        error: Whether the call failed: True, False, 1, 0, yes or no.
        success: Whether the run was a success, in any of its rows: True, False, 1, 0, yes, no, pass or fail.
        tokens: The tokens of the step, input and output together, where they are not known apart. They become input
            tokens.
        input_tokens: The tokens that were sent in the step.
        output_tokens: The tokens that came back.
        cost: What the step cost, in dollars.
        time: When the step was complete: a time, ISO 8601 text, or seconds, since 1970 or since the run began.
        duration: How many seconds the step took.
        text: What the model wrote.
        task: The run's task. Runs of one task are counted as dependent.
        agent: The run's agent.
        model: The model.
        censored: Whether the run was stopped before it was done, for instance by a limit. Without such a column, a run
            with a label is complete, and a run without one if its last step calls no tool.
        settings: Columns that become settings of the runs, for `by=`: each has one value in a run.

    Returns:
        The runs, in the order in which they appear.

    Raises:
        SettingError: if a column is not there, or a value is not accepted: the message names its row.
        RunFormatError: if the file cannot be read.

    Example:
        >>> import boolab as bl
        >>> import pandas as pd
        >>> table = pd.DataFrame({
        ...     "episode": ["a", "a", "a", "b"],
        ...     "t": [1, 2, 3, 1],
        ...     "action": ["ls", "ls", None, "ls"],
        ...     "args": ['{"path": "."}', '{"path": "src"}', None, '{"path": "."}'],
        ...     "solved": ["yes", "yes", "yes", "no"],
        ... })
        >>> runs = bl.runs_from_table(table, run="episode", step="t", tool="action", arguments="args", success="solved")
        >>> [(run.run_id, run.n_steps, run.n_tool_calls, run.success) for run in runs]
        [('a', 3, 2, True), ('b', 1, 1, False)]
    """
    column_names = {
        "run": run, "step": step, "turn": turn, "tool": tool, "arguments": arguments, "result": result, "error": error,
        "success": success, "tokens": tokens, "input_tokens": input_tokens, "output_tokens": output_tokens,
        "cost": cost, "time": time, "duration": duration, "text": text, "task": task, "agent": agent, "model": model,
        "censored": censored,
    }  # fmt: skip
    frame = _frame(table)
    columns = _columns(frame, column_names)
    setting_names = [settings] if isinstance(settings, str) else list(settings)
    _check_there(frame, {f"settings ({name})": name for name in setting_names})
    cells = {name: frame[column].tolist() for name, column in columns.items()}
    cells |= {f"setting {name}": frame[name].tolist() for name in setting_names}
    cells["row"] = frame.index.tolist()
    by_run: dict[str, list[Row]] = {}
    for values in zip(*cells.values(), strict=True):
        row = dict(zip(cells, values, strict=True))
        by_run.setdefault(_run_id(row, columns["run"]), []).append(row)
    if by_run and "tool" not in columns:
        _warn(
            "the table has no column of tools (tool=): its runs have no calls, so nothing is known of repeats and tools"
        )
    gaps: list[str] = []
    runs = [_TableRun(run_id, rows, columns, setting_names, gaps).run() for run_id, rows in by_run.items()]
    if gaps:
        suffix = f" (and {len(gaps) - 1:,} more runs)" if gaps[1:] else ""
        _warn(f"{gaps[0]}{suffix}: the steps are counted without those that the table lacks")
    return runs


def _warn(message: str) -> None:
    warnings.warn(message, ReadWarning, stacklevel=3)


def _frame(table: object) -> pd.DataFrame:
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, str | Path):
        return _read(user_path(table))
    convert = getattr(table, "to_pandas", None)
    if convert is not None:
        frame: pd.DataFrame = convert()
        return frame
    raise TypeError(f"expected a DataFrame or the path of a CSV or Parquet file, not {type(table).__name__}")


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise SettingError(f"{path}: expected a table with the suffix {', '.join(SUFFIXES)}, or a DataFrame")
    try:
        with open_file(path) as file:
            if name.endswith(".parquet"):
                return pd.read_parquet(file)
            packed: Any = "gzip" if name.endswith(".gz") else None
            separator = "\t" if ".tsv" in name else ","
            return pd.read_csv(file, sep=separator, dtype=str, encoding="utf-8-sig", compression=packed)
    except ImportError as error:
        raise SettingError(f"reading Parquet needs pyarrow: {install('boolab[parquet]')}") from error
    except RunFormatError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or error
        raise RunFormatError(f"it cannot be read as a table: {reason}", path=path) from error


def _columns(frame: pd.DataFrame, column_names: Mapping[str, str | None]) -> dict[str, str]:
    """The columns that are there, by argument."""
    _check_there(frame, {name: column for name, column in column_names.items() if column is not None})
    defaults = {name: "cost_usd" if name == "cost" and name not in frame else name for name in column_names}
    columns = {
        name: defaults[name] if column is None else column
        for name, column in column_names.items()
        if column or name != TURN
    }
    return {name: column for name, column in columns.items() if column in frame}


def _check_there(frame: pd.DataFrame, column_names: Mapping[str, str]) -> None:
    columns = list(frame.columns)
    for name, column in column_names.items():
        if column not in columns:
            hint = near(column, columns, "columns", every=True)
            raise SettingError(f"{name}={repr_of(column)}: the table has no such column{hint}")
    for column in columns:
        if columns.count(column) > 1 and column in column_names.values():
            raise SettingError(f"there are {columns.count(column)} columns {column!r}: expected one")


def _run_id(row: Row, column: str) -> str:
    value = row["run"]
    if is_missing(value):
        raise SettingError(f"row {row['row']}: the column {column!r} has no value: expected the id of a run")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@dataclass(frozen=True, slots=True)
class _TableRun:
    """The rows of one run."""

    run_id: str
    rows: list[Row]
    columns: Mapping[str, str]
    settings: Sequence[str]
    gaps: list[str]
    """Gets a sentence if the numbers of the steps leave some out."""

    def run(self) -> Run:
        """The run."""
        builder = RunBuilder(SOURCE)
        task, agent = (self._text_of(self.rows, name) for name in ("task", "agent"))
        if task:
            builder.add_message("user", task, opens_turn=True)
        turn: int | None = None
        for rows in self._steps():
            number: int | None = self._common_value(
                rows, "turn", lambda _, row, name: self._whole_number(row, name), "a step"
            )
            if number is not None and turn is not None and number != turn:
                if number < turn:
                    raise self._cell_error(rows[0], "turn", f"{turn} or more, as the step before it has {turn}")
                builder.open_turn()
            turn = turn if number is None else number
            self._add_step(builder, rows)
        success = self._common_value(self.rows, "success", self._flag, "a run")
        censored = self._common_value(self.rows, "censored", self._flag, "a run")
        if censored is None and success is not None:
            censored = False
        reason = builder.stop_reason() if censored is None else "aborted" if censored else "finished"
        run = builder.build(self.run_id, builder.stop(reason), task=task, agent=agent, success=success)
        values = {
            name: self._common_value(
                self.rows, f"setting {name}", lambda _, row, column: self._json(row, column), "a run"
            )
            for name in self.settings
        }
        relative = run.started_at is not None and run.started_at < _FIRST_TIME
        return replace(run, settings=values, started_at=None if relative else run.started_at)

    def _steps(self) -> list[list[Row]]:
        """The rows of each step, in the order of the steps."""
        if "step" not in self.columns:
            return [[row] for row in self.rows]
        numbered = [(self._whole_number(row, "step"), row) for row in self.rows]
        groups = [(number, [row for _, row in rows]) for number, rows in groupby(numbered, key=lambda pair: pair[0])]
        groups.sort(key=lambda pair: pair[0])
        for (number, rows), (following, later) in pairwise(groups):
            if number == following:
                raise SettingError(
                    f"run {self.run_id!r} has step {number} in the rows {rows[0]['row']} and {later[0]['row']}, with "
                    "other steps between them: expected the rows of a step together, and an id for each run"
                )
        first, last = groups[0][0], groups[-1][0]
        lacking = last - min(first, 1) + 1 - len(groups)
        if lacking:
            self.gaps.append(f"run {self.run_id!r} lacks {count(lacking, 'step')} up to step {last}")
        return [rows for _, rows in groups]

    def _whole_number(self, row: Row, name: str) -> int:
        number = self._number(row[name], row, name)
        if number is None or not number.is_integer():
            raise self._cell_error(row, name, "a whole number from 0 on")
        return int(number)

    def _add_step(self, builder: RunBuilder, rows: Sequence[Row]) -> None:
        def amount(name: str) -> float | None:
            value: float | None = self._common_value(rows, name, self._number, "a step")
            return value

        end = max((time for row in rows if (time := self._time(row)) is not None), default=None)
        duration = amount("duration")
        start = None
        if duration is not None:
            last_time = builder.last_time if builder.steps else 0
            end = last_time + round(1000 * duration) if end is None and last_time is not None else end
            start = None if end is None else end - round(1000 * duration)
        step = builder.add_response(end, start, model=self._text_of(rows, "model"))
        step.add_text("\n".join(dict.fromkeys(str(row["text"]) for row in rows if not is_missing(row.get("text")))))
        step.usage = self._usage(amount, rows)
        for row in rows:
            self._add_call(builder, step, row)

    def _usage(self, amount: Callable[[str], float | None], rows: Sequence[Row]) -> Usage:
        input_tokens, output_tokens, total = (
            self._round_number(amount(name)) for name in ("input_tokens", "output_tokens", "tokens")
        )
        if total is not None:
            if input_tokens is None:
                input_tokens, output_tokens = total - (output_tokens or 0), output_tokens or 0
            output_tokens = total - input_tokens if output_tokens is None else output_tokens
            if input_tokens + output_tokens != total or min(input_tokens, output_tokens) < 0:
                msg = f"run {self.run_id!r}, row {rows[0]['row']}: {total:,} tokens are not the input and the output"
                raise SettingError(msg)
        return Usage(input_tokens, output_tokens, cost=micro(amount("cost")))

    @staticmethod
    def _round_number(number: float | None) -> int | None:
        return None if number is None else round(number)

    def _add_call(self, builder: RunBuilder, step: StepBuilder, row: Row) -> None:
        tool = row.get("tool")
        if is_missing(tool) or tool == "":
            return
        number = len(step.calls) + 1
        call_id = f"{len(builder.steps)}.{number}"
        builder.add_call(step, call_id, str(tool), self._arguments(row))
        result = row.get("result")
        content = (
            "" if is_missing(result) else result if isinstance(result, str) else json_text(self._json(row, "result"))
        )
        failed = self._flag(row["error"], row, "error") if "error" in row else None
        builder.set_result(step, number - 1, content, is_error=failed)

    def _arguments(self, row: Row) -> str:
        """The arguments as the text of a JSON object."""
        value = row.get("arguments")
        if is_missing(value):
            return REDACTED
        if isinstance(value, str):
            return value if value == REDACTED or not is_unreadable(value) else json_text({"arguments": value})
        data = self._json(row, "arguments")
        return json_text(data if isinstance(data, dict) else {"arguments": data})

    def _json(self, row: Row, name: str) -> Any:  # noqa: ANN401 - it is JSON
        try:
            return plain_json(row[name])
        except ValueError:
            raise self._cell_error(row, name, "a text or a value of JSON") from None

    def _text_of(self, rows: Sequence[Row], name: str) -> str:
        return (
            self._common_value(rows, name, lambda value, *_: str(value), "a run" if rows is self.rows else "a step")
            or ""
        )

    def _common_value(self, rows: Sequence[Row], name: str, read: Callable[[Cell, Row, str], Any], owner: str) -> Any:  # noqa: ANN401
        """The value that all rows have which have one; None if none has."""
        value, first = None, None
        for row in rows if rows and name in rows[0] else ():
            if is_missing(row[name]) or (new := read(row[name], row, name)) is None:
                continue
            if first is not None and new != value:
                column = self.columns.get(name, name.removeprefix("setting "))
                raise SettingError(
                    f"run {self.run_id!r}: the column {column!r} is {repr_of(first[name])} in row {first['row']} and "
                    f"{repr_of(row[name])} in row {row['row']}: expected one value for {owner}, in any of its rows"
                )
            value, first = (new, row) if first is None else (value, first)
        return value

    def _flag(self, value: Cell, row: Row, name: str) -> bool | None:
        try:
            return flag_of(value, "")
        except SettingError:
            raise self._cell_error(row, name, "True, False, 1, 0, yes, no, pass, fail, or no value") from None

    def _number(self, value: Cell, row: Row, name: str) -> float | None:
        if is_missing(value) or value == "":
            return None
        try:
            number = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not 0 <= number < 2**53:
            raise self._cell_error(row, name, "a number from 0 on, or no value")
        return number

    def _time(self, row: Row) -> int | None:
        """The time of a row in milliseconds, since 1970 or since the run began."""
        value = row.get("time")
        if is_missing(value) or value == "":
            return None
        if isinstance(value, datetime):
            return epoch_ms(value.isoformat())
        time = epoch_ms(value) if isinstance(value, str) else None
        if time is not None:
            return time
        try:
            number = self._number(value, row, "time") or 0.0
        except SettingError:
            raise self._cell_error(row, "time", "a time, ISO 8601 text, or seconds") from None
        return round(number if number > _MAX_SECONDS else 1000 * number)

    def _cell_error(self, row: Row, name: str, expected: str) -> SettingError:
        column = self.columns.get(name, name.removeprefix("setting "))
        value = repr_of(row[name])
        return SettingError(
            f"run {self.run_id!r}, row {row['row']}: the column {column!r} is {value}; expected {expected}"
        )


def plain_json(value: object) -> JSON:
    """A value of Python as one of JSON: objects of pydantic become mappings, numpy's numbers become Python's."""
    try:
        try:
            data = to_json(value, inf_nan_mode="constants", fallback=_plain_part)
        except PydanticSerializationError:  # lone surrogates
            data = json.dumps(value, separators=(",", ":"), default=_plain_part).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return parse(data)


def _plain_part(value: object) -> object:
    """A scalar or an array of numpy as Python's; pandas' NA as None."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    to_list = getattr(value, "tolist", None)
    if to_list is None:
        raise TypeError(f"{type(value).__name__} is no type of JSON")
    return to_list()
