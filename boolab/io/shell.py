"""Shell commands, read without running them: their simple commands, and whose exit code is that of the line.

This is no shell: nothing is expanded, and a command in `$(...)` or backquotes is a part of its word. Bash accepts more
than is read here. A line is read up to `MAX_CHARS`, with at most `MAX_COMMANDS` simple commands of at most
`MAX_WORDS` words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Final, NamedTuple

MAX_CHARS: Final = 200_000
MAX_COMMANDS: Final = 500
MAX_WORDS: Final = 500
_MAX_NESTED: Final = 5

_TOKEN: Final = re.compile(
    r"(?P<space>[^\S\n]+|\\\n)"
    r"|(?P<comment>(?<![^\s;&|()])#[^\n]*)"
    r"|(?P<document><<-?[ \t]*(?P<quote>['\"]?)(?P<mark>[A-Za-z0-9_]+)(?P=quote))"
    r"|(?P<redirect>(?:(?<![^\s;&|()])\d{1,3})?(?:&>>|&>|>\||>>|>&|<<<|<&|<>|>|<))"
    r"|(?P<operator>&&|\|\||\|&|;;|[;&|\n()])"
)
_PART: Final = re.compile(
    r"'(?P<single>[^']*)'?"
    r"|\"(?P<double>(?:[^\"\\]|\\.)*)\"?"
    r"|\\(?P<escaped>.?)"
    r"|(?P<plain>[^\s'\"\\`$;&|()<>]+|[`$])",
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(\n|[\"\\$`])")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_KEYWORDS: Final = frozenset({"if", "then", "elif", "else", "while", "until", "for", "do", "case", "!", "{"})
_CONTROL: Final = frozenset({"if", "while", "until", "for", "case", "!"})
"""The keywords after which the exit code of a line is not that of a command in it."""
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_SETUP: Final = frozenset({"cd", "pushd", "export", "set", "source", ".", "true", ":", "echo", "unset", "shopt"})
"""Commands that hardly ever fail: the exit code of `cd x && pytest` is that of pytest."""
_FAILURES: Final = (("false",), ("exit", "1"))
_INPUT: Final = ("<", "<<<", "<&", "<>")


class Redirect(NamedTuple):
    """A file that a command writes."""

    path: str
    appends: bool


class ShellCommand(NamedTuple):
    """A simple command.

    Attributes:
        words: Its words without quotes, and without what stands before the program (`cd x && CI=1 timeout 60 pytest`
            has the words `pytest`).
        redirects: The files that the shell writes its output to.
        document: The text of its here-document; "" if it has none.
        end: The operator after it: `&&`, `||`, `|`, `;`, `&`, or "" at the end of the line.
        passes: Whether it succeeded if the exit code of the line is 0.
        fails: Whether it failed if the exit code of the line is another one.
    """

    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    document: str = ""
    end: str = ""
    passes: bool = False
    fails: bool = False

    @property
    def program(self) -> str:
        """The name of the program, without its folder."""
        return PurePosixPath(self.words[0]).name if self.words else ""


class Wrapper(NamedTuple):
    """A program that runs the command after it."""

    valued: str = ""
    """Its options that have a value in the word after them."""
    operands: int = 0
    """How many words that are no options stand before the command."""


_DOCKER: Final = Wrapper("-e --env -w --workdir -u --user -v --volume --name --network -p --entrypoint --env-file", 1)
_UV: Final = "--with --with-editable --with-requirements --extra --group --only-group --no-group --python -p --project "
_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "env": Wrapper("-u --unset -C --chdir"),
    "timeout": Wrapper("-s --signal -k --kill-after", 1),
    "gtimeout": Wrapper("-s --signal -k --kill-after", 1),
    "time": Wrapper("-f -o"),
    "nice": Wrapper("-n --adjustment"),
    "ionice": Wrapper("-c -n"),
    "nohup": Wrapper(),
    "sudo": Wrapper("-u --user -g --group -C -D"),
    "doas": Wrapper("-u"),
    "stdbuf": Wrapper("-i -o -e"),
    "command": Wrapper(),
    "exec": Wrapper("-a"),
    "builtin": Wrapper(),
    "xvfb-run": Wrapper("-s --server-args -n --server-num -e -f"),
    "setsid": Wrapper(),
    "unbuffer": Wrapper(),
    "chronic": Wrapper(),
    "caffeinate": Wrapper(),
    "npx": Wrapper("-p --package"),
    "bunx": Wrapper("-p --package"),
    "uvx": Wrapper(_UV + "--from"),
    "uv run": Wrapper(_UV + "--directory --package --env-file --index --index-url --extra-index-url --config-file"),
    "uv tool run": Wrapper(_UV + "--from"),
    "poetry run": Wrapper("-C --directory -P --project"),
    "pipenv run": Wrapper(),
    "pdm run": Wrapper("-p --project"),
    "hatch run": Wrapper("-e --env"),
    "hatch -e": Wrapper(operands=1),
    "rye run": Wrapper("--pyproject"),
    "pixi run": Wrapper("-e --environment --manifest-path"),
    "conda run": Wrapper("-n --name -p --prefix --cwd"),
    "mamba run": Wrapper("-n --name -p --prefix --cwd"),
    "micromamba run": Wrapper("-n --name -p --prefix --cwd"),
    "pnpm exec": Wrapper("-C --dir --filter -F"),
    "npm exec": Wrapper("-w --workspace"),
    "yarn exec": Wrapper(),
    "bundle exec": Wrapper(),
    "mise exec": Wrapper(),
    "direnv exec": Wrapper(operands=1),
    "coverage run": Wrapper("--source --omit --include --rcfile --data-file --context --concurrency"),
    "docker exec": _DOCKER,
    "docker run": _DOCKER,
    "podman exec": _DOCKER,
    "podman run": _DOCKER,
    "docker compose exec": _DOCKER._replace(valued=_DOCKER.valued + " --index"),
    "docker compose run": _DOCKER,
    "docker-compose exec": _DOCKER,
    "docker-compose run": _DOCKER,
    "kubectl exec": Wrapper("-n --namespace -c --container", 1),
}
"""The programs that run the command after their options and operands."""
_MAX_WORDS: Final = max(name.count(" ") + 1 for name in _WRAPPERS)


def commands_in(line: str | Sequence[str]) -> list[ShellCommand]:
    """The simple commands of a line, or of the words of one, in order; also those that a shell or a wrapper runs."""
    commands = _from_words(line) if not isinstance(line, str) else _from_text(line, 0)
    return _with_exits(commands)


class _Parsed(NamedTuple):
    """A simple command, and whether it is in a structure that hides its exit code."""

    command: ShellCommand
    is_controlled: bool = False


def _from_words(words: Sequence[str]) -> list[_Parsed]:
    return list(_unwrap(ShellCommand(tuple(words)), 0))


def _from_text(text: str, depth: int) -> list[_Parsed]:
    parser = _Parser(text[:MAX_CHARS])
    parser.parse()
    parsed: list[_Parsed] = []
    for command in parser.commands[:MAX_COMMANDS]:
        for inner, is_controlled in _unwrap(command, depth):
            parsed.append(_Parsed(inner, is_controlled or parser.is_controlled))
    return parsed[:MAX_COMMANDS]


class _Parser:
    """Reads a line into simple commands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[str] = []
        self._redirects: list[Redirect] = []
        self._marks: list[tuple[str, int]] = []
        """The marks of here-documents that are not read yet, each with the index of its command."""
        self.commands: list[ShellCommand] = []
        self.is_controlled = False

    def parse(self) -> None:
        """Read the whole line."""
        position = 0
        while position < len(self._text) and len(self.commands) < MAX_COMMANDS:
            match = _TOKEN.match(self._text, position)
            if match is None:
                word, position = self._read_word(position)
                if len(self._words) < MAX_WORDS:
                    self._words.append(word)
                continue
            position = match.end()
            if match["document"]:
                self._marks.append((match["mark"], len(self.commands)))
            elif match["redirect"]:
                position = self._read_redirect(match["redirect"], position)
            elif match["operator"]:
                self._end_command(match["operator"])
                if match["operator"] == "\n":
                    position = self._read_documents(position)
        self._end_command("")

    def _read_word(self, position: int) -> tuple[str, int]:
        parts: list[str] = []
        while (match := _PART.match(self._text, position)) is not None:
            position = match.end()
            if match["single"] is not None:
                parts.append(match["single"])
            elif match["double"] is not None:
                parts.append(_ESCAPED.sub(lambda escape: "" if escape[1] == "\n" else escape[1], match["double"]))
            elif match["escaped"] is not None:
                parts.append(match["escaped"].replace("\n", ""))
            else:
                part = match["plain"]
                end = position if part not in ("$", "`") else self._end_of_expansion(position, part)
                parts.append(part + self._text[position:end])
                position = end
        return "".join(parts), position

    def _end_of_expansion(self, position: int, sign: str) -> int:
        """Where `$(...)` or a command in backquotes ends."""
        if sign == "`":
            end = self._text.find("`", position)
            return len(self._text) if end < 0 else end + 1
        if self._text[position : position + 1] not in ("(", "{"):
            return position
        depth = 0
        for index in range(position, len(self._text)):
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(self._text[index], 0)
            if depth == 0:
                return index + 1
        return len(self._text)

    def _read_redirect(self, operator: str, position: int) -> int:
        while self._text[position : position + 1] in (" ", "\t"):
            position += 1
        target, end = self._read_word(position) if _PART.match(self._text, position) else ("", position)
        is_output = not operator.lstrip("0123456789").startswith(_INPUT)
        is_file = is_output and not (operator.endswith("&") and _is_stream(target))
        if is_file and len(self._redirects) < MAX_WORDS:
            self._redirects.append(Redirect(target, ">>" in operator))
        return end

    def _read_documents(self, position: int) -> int:
        """Read the here-documents that begin after this end of a line."""
        for mark, index in self._marks:
            end = re.compile(rf"^[ \t]*{mark}[ \t]*$", re.MULTILINE).search(self._text, position)
            document = self._text[position : len(self._text) if end is None else end.start()]
            position = len(self._text) if end is None else end.end()
            if index < len(self.commands):
                self.commands[index] = self.commands[index]._replace(document=document)
        self._marks.clear()
        return position

    def _end_command(self, operator: str) -> None:
        while self._words and self._words[0] in _KEYWORDS:
            self.is_controlled |= self._words[0] in _CONTROL
            if self._words[0] in ("for", "case"):
                self._words.clear()
            else:
                del self._words[0]
        if self._words in (["}"], ["fi"], ["done"], ["esac"]):
            self._words.clear()
        end = {"\n": ";", ";;": ";", "|&": "|", ")": "", "(": ""}.get(operator, operator)
        if self._words or self._redirects:
            self.commands.append(ShellCommand(tuple(self._words), tuple(self._redirects), end=end))
        elif self.commands and end and self.commands[-1].end == "":
            self.commands[-1] = self.commands[-1]._replace(end=end)  # what follows a group
        self._words, self._redirects = [], []


def _is_stream(target: str) -> bool:
    return target.isdigit() or target == "-"


def _unwrap(command: ShellCommand, depth: int) -> Iterator[_Parsed]:
    """The command that a command runs, or those of the line that it gives to a shell."""
    words = _command_after(command.words)
    if words and depth < _MAX_NESTED and (line := _line_for_shell(words)) is not None:
        inner = _from_text(line, depth + 1)
        yield from inner[:-1]
        for parsed in inner[-1:]:
            redirects = (*parsed.command.redirects, *command.redirects)
            yield parsed._replace(command=parsed.command._replace(end=command.end, redirects=redirects))
        return
    yield _Parsed(command._replace(words=words))


def _line_for_shell(words: Sequence[str]) -> str | None:
    name = PurePosixPath(words[0]).name
    if name == "eval":
        return " ".join(words[1:])
    if name not in _SHELLS:
        return None
    for index, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-z]*c", word):
            return words[index + 1] if index + 1 < len(words) else None
        if not word.startswith("-"):
            return None
    return None


def _command_after(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words without assignments and wrappers before the program."""
    while words:
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
            continue
        words = _without_python_options(words)
        name = PurePosixPath(words[0]).name
        length = next(
            (n for n in range(_MAX_WORDS, 0, -1) if " ".join((name, *words[1:n])) in _WRAPPERS and len(words) > n), 0
        )
        if not length:
            return words
        wrapper = _WRAPPERS[" ".join((name, *words[1:length]))]
        words = _after_options(words[length:], wrapper)
    return words


def _without_python_options(words: tuple[str, ...]) -> tuple[str, ...]:
    """`python -m coverage run` is `coverage run`."""
    is_coverage = words[1:4] == ("-m", "coverage", "run") and re.match(r"(?:.*/)?python[\d.]*$", words[0])
    return words[2:] if is_coverage else words


def _after_options(words: tuple[str, ...], wrapper: Wrapper) -> tuple[str, ...]:
    valued, operands, index = frozenset(wrapper.valued.split()), wrapper.operands, 0
    while index < len(words):
        word = words[index]
        if word == "--" and operands == 0:
            return words[index + 1 :]
        if word.startswith("-") and len(word) > 1:
            index += 2 if word in valued else 1
        elif operands:
            operands -= 1
            index += 1
        else:
            break
    return words[index:]


def _with_exits(parsed: Sequence[_Parsed]) -> list[ShellCommand]:
    """The commands with what the exit code of the line shows of each."""
    options = {*chain.from_iterable(command.words[1:] for command, _ in parsed if command.program == "set")}
    has_pipefail = "pipefail" in options
    stops_at_failure = "errexit" in options or any(re.fullmatch(r"-[a-z]*e[a-z]*", word) for word in options)
    commands: list[ShellCommand] = []
    passes = fails = True
    for command, is_controlled in reversed(parsed):
        passes, fails = _exit_shown(command.end, commands[-1:], passes, fails, stops_at_failure)
        is_shown = not is_controlled and (command.end != "|" or has_pipefail)
        commands.append(command._replace(passes=passes and is_shown, fails=fails and is_shown))
    commands.reverse()
    is_doubtful = is_alternative = False
    for index, command in enumerate(commands):
        passes, fails = command.passes and not is_alternative, command.fails and not is_doubtful
        commands[index] = command._replace(passes=passes, fails=fails)
        is_chained = command.end in ("&&", "|") or (command.end == ";" and stops_at_failure)
        is_doubtful = is_chained and (is_doubtful or (command.end != "|" and command.program not in _SETUP))
        is_alternative = command.end == "||" or (is_alternative and is_chained)
    return commands


def _exit_shown(
    end: str, following: Sequence[ShellCommand], passes: bool, fails: bool, stops_at_failure: bool
) -> tuple[bool, bool]:
    """Whether the exit code of a line shows that a command passed, and that it failed, from those of the next one."""
    if end == "&":
        return False, False
    if not following:
        return passes, fails
    words = following[0].words
    if end == "||":
        return passes and words in _FAILURES, fails
    if end == "&&":
        return passes, fails and following[0].program in _SETUP
    if end == ";" and words != ("exit", "$?"):
        return passes and stops_at_failure, False
    return passes, fails
