"""Everything that boolab raises on purpose.

```
BoolabError
├── SettingError          a value passed to boolab is not one that it accepts (also a ValueError)
├── FileError             a file cannot be read: one of the next six           (path, line)
│   ├── AgentFileError    an agent file cannot be read
│   ├── ConfigFileError   a settings file of a harness cannot be read or changed
│   ├── ScriptError       a script cannot be read
│   ├── ProfileError      a profile of a simulated agent cannot be read
│   ├── RunFormatError    a log of runs cannot be read
│   └── StoreError        a store of runs cannot be read or written            (path)
├── ScriptExhausted       a scripted or recorded model holds no further response
├── ModelError            a model failed to respond                            (status, retryable, partial)
├── WorkerDied            a worker vanished before its piece of work was done
├── ToolError             raised by a tool: why it failed, in one sentence
├── WorldError            the files of a run cannot be kept or restored
├── RunStopped            ends the block of a `Monitor` whose rule is true              (stop, monitor)
└── UnknownCounter        a stop rule hangs on a counter whose value the run does not know
```

Catch `BoolabError` for all of them. A failure *inside* a run (a model, a tool, an unknown counter) is not
raised at all: it is part of the run's record.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from boolab.core.types import Response, Stop


INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)
"""What foreign code may raise to the caller: no failure, but a request to end."""


class BoolabError(Exception):
    """The base of all errors that boolab raises on purpose."""


class SettingError(BoolabError, ValueError):
    """A value passed to boolab is not one that it accepts.

    Args:
        message: What is wrong, and what would be right.
        setting: The name of the setting with that value; "" where it is none of an agent.

    Example:
        >>> import boolab as bl
        >>> bl.Agent("a", max_steps=-1)
        Traceback (most recent call last):
        boolab.errors.SettingError: max_steps: -1 is not accepted; expected an integer >= 0, or none for no limit
    """

    def __init__(self, message: str = "", setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


class FileError(BoolabError):
    """A file that cannot be read, with the place where reading stopped: `message`, `path` and `line`.

    Args:
        message: What is wrong, and what would be right.
        path: The file; None for what did not come from one.
        line: The line in it, from 1; None where it is no single line.

    Example:
        >>> import boolab as bl
        >>> str(bl.errors.AgentFileError("there is no agent in it", path="AGENTS.md", line=3))
        'AGENTS.md:3: there is no agent in it'
    """

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.message = message
        self.path = None if path is None else str(path)
        self.line = line
        place = ":".join(str(part) for part in (self.path, line) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class AgentFileError(FileError):
    """An agent file cannot be read."""


class ConfigFileError(FileError):
    """A settings file of a harness cannot be read, or not be changed without changing more. It stays as it was."""


class ScriptError(FileError):
    """A script for a `ScriptedModel` cannot be read."""


class ProfileError(FileError):
    """A profile for a `SimulatedModel` cannot be read."""


class RunFormatError(FileError):
    """A log cannot be read as runs."""


class StoreError(FileError):
    """A store of runs cannot be read or written. What was committed before stays as it is."""


class ReadWarning(UserWarning):
    """Something in a log could not be read; the rest was. The text names path and line."""


class SweepWarning(UserWarning):
    """Something other than the grid decided the numbers of a sweep, such as a limit that the grid does not have."""


class ScriptExhausted(BoolabError):
    """A scripted or recorded model holds no further response."""


class ModelError(BoolabError):
    """A model failed to respond.

    Args:
        message: What went wrong.
        status: The HTTP status, where there was one.
        retryable: Whether the same request may succeed later.
        partial: What had arrived before the failure; it is kept in the record.
        recorded: The text under which records keep the failure, if it is not this error's own.

    Example:
        >>> import boolab as bl
        >>> bl.errors.ModelError("the server is busy", status=529, retryable=True).retryable
        True
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        partial: Response | None = None,
        recorded: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.partial = partial
        self.recorded = recorded


class WorkerDied(BoolabError):
    """The process, or the machine, that worked on a piece of a sweep or of a counterfactual was gone before the end."""


class SchedulerLost(BoolabError):
    """The scheduler of a Dask cluster is gone or does not answer, so that no more work can be sent."""


def describe(error: BaseException) -> str:
    """An error as records keep it: its type and its text."""
    if isinstance(error, ModelError) and error.recorded is not None:
        return error.recorded
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - foreign code: any error may come from its __str__
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text}"


class ToolError(BoolabError):
    """Raise it in a tool to give the model an error result whose text is just your message."""


class WorldError(BoolabError):
    """The state that the tools of a run change cannot be kept, or not be restored: see `GitWorld`."""


class RunStopped(BoolabError):
    """A rule of a `Monitor` is true, and the loop asked to be ended by it: see `Monitor.raise_if_stopped`.

    Args:
        stop: Why, where and by which rule.
        monitor: The monitor whose block ends.
    """

    def __init__(self, stop: Stop, monitor: object) -> None:
        super().__init__(f"stopped after step {stop.step} by {stop.rule}")
        self.stop = stop
        self.monitor = monitor


class UnknownCounter(BoolabError):
    """A stop rule hangs on a counter whose value is not known, so it can be neither true nor false."""


def forgot_await(value: object) -> str:
    """The hint for a coroutine where something else is expected, which is closed then; "" for any other value."""
    close = getattr(value, "close", None)
    if not hasattr(value, "cr_frame") or close is None:
        return ""
    close()
    return ": did you forget await?"


def nearest(name: object, known: Iterable[object], cutoff: float = 0.6) -> str | None:
    """The known name nearest to one that is not known; None if none is as alike as `cutoff`, from 0 to 1."""
    import difflib  # only when something is wrong: rules start fast

    close = difflib.get_close_matches(str(name), [str(one) for one in known], n=1, cutoff=cutoff)
    return close[0] if close else None


def near(name: object, known: Collection[object], title: str = "", *, every: bool = False) -> str:
    """The end of a message about a name that is not known: the nearest one, or else, after `title`, all."""
    listed = f"{title}: {', '.join(map(str, known))}" if title else ""
    if close := nearest(name, known):
        return f"; did you mean {close!r}?{f' {listed[:1].upper()}{listed[1:]}' if every else ''}"
    return f"; {listed}" if listed else ""


def program() -> str:
    """What to type for boolab: its name if the shell finds this one by it, else its path, or Python with `-m`."""
    import shlex
    import shutil
    from pathlib import Path

    name = shutil.which("boolab")
    started, beside = Path(*sys.argv[:1]), _find_script("boolab")
    script = started if started.name == "boolab" and started.is_file() else beside
    if script is None:
        return "boolab" if name is not None else shlex.join([_shorten_path(Path(sys.executable)), "-m", "boolab"])
    return "boolab" if name is not None and script.samefile(name) else shlex.quote(_shorten_path(script))


def install(packages: str) -> str:
    """The command that installs packages, such as `boolab[learn]`, for the Python that runs now."""
    import shlex
    import shutil
    from pathlib import Path

    name, script = shutil.which("pip"), _find_script("pip")
    is_found = name is not None and script is not None and script.samefile(name)
    pip = "pip" if is_found else shlex.join([_shorten_path(Path(sys.executable)), "-m", "pip"])
    return f"{pip} install {shlex.quote(packages)}"


def _find_script(name: str) -> Path | None:
    """The script of this name in the folder of the Python that runs now."""
    from pathlib import Path

    script = Path(sys.executable or "python").with_name(name)
    return script if script.is_file() else None


def _shorten_path(path: Path) -> str:
    """A path as a shell takes it for a program, relative to the current folder if it is below it."""
    from pathlib import Path

    try:
        path, here = path.absolute(), Path.cwd()
    except FileNotFoundError:  # the current folder was deleted
        return str(path)
    if path.parent == here:
        return f"./{path.name}"
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
