"""An agent file as a form."""

from __future__ import annotations

import html
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import ipywidgets

from boolab.core.text import clean
from boolab.errors import AgentFileError, ConfigFileError, SettingError
from boolab.harnesses.agent_edit import FIELDS, Value, read_agents, remove_field, set_field, set_prompt
from boolab.io.file_edit import UserFile, edit_file, read_user_file
from boolab.io.files import user_path
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.runtime.agents.agent import Agent, AgentFileWarning, agents_of, limits_of, policy_of
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import Shown, View
from boolab.widgets.agent_editor.fields import LISTS, changes_of, label_of, menus_of, names_in, shown_value, verdict_of
from boolab.widgets.replay.diffs import diff_of

HELP: Final[Mapping[str, str]] = {
    "name": "The agent's name in records.",
    "description": "What it is for, in a line.",
    "tools": "Names, separated by commas. Empty: all tools given to run.",
    "model": "The name of a model, for the caller of run.",
    "max_steps": "How many model responses it may make: a number, none, or empty for the policy's default.",
    "tool_budget": "How many tool calls it may make: a number, none, or empty for the default.",
    "doom_loop": "How many identical calls in a row stop it: a number from 2, none, or empty for the default.",
    "identity": "How calls are compared: raw, ordered, canonical, ...; empty for the policy's default.",
    "exempt": "Tools whose repeats are no loop, such as one that polls: names, separated by commas.",
    "policy": "The harness whose rules hold; boocode if empty.",
    "temperature": "Passed to the model; empty for its own.",
}
HINTS: Final = {
    "tools": "names, with commas",
    "model": "a name; empty: the caller's",
    "max_steps": "a number or none; empty: default",
    "tool_budget": "a number or none; empty: default",
    "doom_loop": "from 2, or none; empty: default",
    "identity": "empty: the policy's default",
    "exempt": "names, with commas",
    "policy": "empty: boocode",
    "temperature": "empty: the model's own",
}
"""What an empty field shows: as much as has room in it. `HELP` is beside the pointer."""
_APPLYING: Final = {
    "tools": "all that are given to the run",
    "model": "the caller chooses",
    "exempt": "all repeats of a call count",
    "temperature": "the model's own applies",
}
"""What holds where a file does not set a field."""
_HEADLESS: Final[Mapping[str, Any]] = {"title": "", "verdict": "", "fields": []}
"""What is drawn of a live form: its head and its fields are controls of their own."""
_WIDE: Final = {"description_width": "140px"}


class _Form(View, module="agent_editor"):
    """The part of the form that cannot be edited; it brings the styles of the whole form."""


class AgentEditor(Shown, ipywidgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """An agent file as a form: whether it is valid and saved, a control for each key, what saving changes, the limits.

    An edit changes only the lines of its field in the file's text. Comments, the order of keys, quotes, line ends,
    other agents and unknown keys stay as they are, byte for byte.

    Args:
        path: A Markdown file with one agent or several (see `boolab.runtime.agents.agent`).
        models: Names of models for the menu, beside those in the file. Every field accepts other names too.
        tools: Names of tools for the menus, beside those in the file and boolab's own.

    Attributes:
        text: The text that saving would write.
        place: Which of the file's agents the form shows, from 0.
        fields: The controls, by key, and "prompt".
        menus: The menus that add a name to a field, by key: "tools" and "exempt".

    Raises:
        AgentFileError: if the file cannot be read, or contains no agent.
        SettingError: if the path is none.

    Example:
        >>> import boolab as bl
        >>> from boolab.io.resources import data_path
        >>> editor = bl.AgentEditor(data_path("agents") / "AGENTS.md")
        >>> editor.fields["max_steps"].value = "7"
        >>> editor.effective[0], editor.changed
        ('step cap: at most 7', True)
    """

    def __init__(self, path: str | Path, *, models: Iterable[str] = (), tools: Iterable[str] = ()) -> None:
        if not isinstance(path, str | Path):
            raise SettingError(f"path={type(path).__name__}: expected the path of an agent file, such as AGENTS.md")
        self.path = user_path(path)
        self._given = [*models], [*tools]
        self._file = self._read()
        self.text = self._decode(self._file)
        self.place = 0
        self._filling = False
        self._problems: dict[str, str] = {}
        self._message_of: dict[str, ipywidgets.HTML] = {}
        self.fields: dict[str, Any] = {name: self._control(name) for name in (*FIELDS, "prompt")}
        self.menus: dict[str, ipywidgets.Dropdown] = {name: self._menu(name) for name in LISTS}
        self.agent_choice = ipywidgets.Dropdown(description="agent", style=_WIDE)
        self.agent_choice.observe(self._choose, "value")
        self._under = _Form({**_HEADLESS, "policy": "", "limits": [], "extra": [], "diff": []})
        self.verdict = ipywidgets.HTML()
        self.save_button = ipywidgets.Button(description="save", button_style="primary", tooltip="Write the file")
        self.reload_button = ipywidgets.Button(description="reload", tooltip="Read the file again, dropping changes")
        self.undo_button = ipywidgets.Button(description="undo", tooltip="Take back the last edit")
        self.undo_button.on_click(lambda _: self.undo())
        self._before: list[str] = []
        self.save_button.on_click(lambda _: self._try_saving())
        self.reload_button.on_click(lambda _: self.reload())
        buttons_of = {"save": self.save_button, "undo": self.undo_button, "reload": self.reload_button}
        for name, control in (*buttons_of.items(), ("agent", self.agent_choice)):
            control.add_class(f"boolab-{name}").layout.width = "auto"
        buttons = ipywidgets.HBox([*buttons_of.values()])
        form = ipywidgets.VBox([self.agent_choice, *map(self._row, self.fields)])
        columns = ipywidgets.HBox([form, ipywidgets.VBox([buttons, self._under])])
        super().__init__([self.verdict.add_class("boolab-verdict"), columns])
        self.add_class("boolab-agent_editor").add_class("boolab-whole")
        columns.add_class("boolab-columns")
        self._fill()

    # --- What is edited -----------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        """Whether there is something to save."""
        return self.text != self._saved_text

    @property
    def messages(self) -> dict[str, str]:
        """What is wrong, by key; "" is the key of what is wrong with the file."""
        return {**self._faults(), **self._problems}

    @property
    def effective(self) -> list[str]:
        """What the limits mean under the agent's policy, a sentence each; empty if the agent cannot be read."""
        agent = self._agent()
        return [] if agent is None else limits_of(agent, policy_of(agent))

    @property
    def extra(self) -> dict[str, Any]:
        """The unknown keys, which stay as they are."""
        agent = self._agent()
        return {} if agent is None else dict(agent.extra)

    def save(self) -> None:
        """Write the file, whole or not at all.

        Raises:
            AgentFileError: if the new text cannot be read as agents, a field has a value that it cannot have, or the
                file has changed since it was read.
        """
        for field, message in self.messages.items():
            raise AgentFileError(f"{field}: {message}" if field else message, path=self.path)
        try:
            self._file = edit_file(self._file, self.text.encode("utf-8"), "reload it, and make the changes again")
        except ConfigFileError as error:
            raise AgentFileError(error.message, path=self.path) from error
        self._refresh()

    def undo(self) -> None:
        """Take back the last edit; with none left, nothing happens."""
        if self._before:
            self.text = self._before.pop()
            self._fill()

    def reload(self) -> None:
        """Read the file again, and drop what was not saved.

        Raises:
            AgentFileError: if it cannot be read.
        """
        file = self._read()
        self.text = self._decode(file)
        self._file = file
        self._before = []
        self.place = min(self.place, len(read_agents(self.text)) - 1)
        self._fill()

    # --- Between the form and the text --------------------------------------------------------------------------------

    @property
    def _saved_text(self) -> str:
        """The text of the file, as it was read or saved."""
        return self._file.text() or ""

    def _read(self) -> UserFile:
        try:
            file = read_user_file(self.path)
        except ConfigFileError as error:
            raise AgentFileError(error.message, path=self.path) from error
        if file.data is None:
            msg = "cannot be read: there is no such file"
            raise AgentFileError(msg, path=self.path)
        return file

    def _decode(self, file: UserFile) -> str:
        try:
            text = file.text() or ""
        except ConfigFileError as error:
            raise AgentFileError(error.message, path=self.path) from error
        try:
            read_agents(text)
        except AgentFileError as error:
            raise AgentFileError(error.message, path=self.path, line=error.line) from error
        return text

    def _control(self, name: str) -> ipywidgets.ValueWidget:
        label = label_of(name)
        if name in ("model", "policy", "identity"):
            control = ipywidgets.Combobox(description=label, style=_WIDE, continuous_update=False)
        elif name == "prompt":
            control = ipywidgets.Textarea(description=label, rows=8, style=_WIDE)
        else:
            control = ipywidgets.Text(description=label, style=_WIDE, continuous_update=False)
        control.layout.width = "auto"
        control.add_class(f"boolab-field-{name}")
        control.tooltip = HELP.get(name, "The system prompt of the agent.")
        control.placeholder = HINTS.get(name, "")
        control.observe(lambda change: self._edit(name, change["new"]), "value")
        self._message_of[name] = ipywidgets.HTML()
        return control

    def _menu(self, name: str) -> ipywidgets.Dropdown:
        """A menu that adds a name to a field of several."""
        menu = ipywidgets.Dropdown(description="add", options=[""], tooltip=f"Add a name to {label_of(name)}")

        def add(change: Mapping[str, Any]) -> None:
            if change["new"]:
                field = self.fields[name]
                field.value = ", ".join([*names_in(field.value), change["new"]])
                menu.value = ""

        menu.observe(add, "value")
        return menu.add_class("boolab-add").add_class(f"boolab-add-{name}")

    def _row(self, name: str) -> ipywidgets.VBox:
        """A field, the menu that adds to it if it has one, and its message."""
        menus = [self.menus[name]] if name in self.menus else []
        return ipywidgets.VBox([ipywidgets.HBox([self.fields[name], *menus]), self._message_of[name]])

    def _choose(self, change: Mapping[str, Any]) -> None:
        if not self._filling and change["new"] is not None:
            self.place = change["new"]
            self._fill()

    def _fill(self) -> None:
        """Show the values of the text."""
        agents = read_agents(self.text)
        agent = agents[self.place]
        self._filling = True
        try:
            self._problems = {}
            names = [str(agent_text.data.get("name", self.path.stem)) for agent_text in agents]
            self.agent_choice.options = [(name, index) for index, name in enumerate(names)]
            self.agent_choice.value = self.place
            for name, control in self.fields.items():
                control.value = agent.prompt if name == "prompt" else shown_value(agent, name)
        finally:
            self._filling = False
        self._refresh()

    def _edit(self, name: str, typed: str) -> None:
        """Put the value of a control into the text, if it is accepted."""
        if self._filling:
            return
        self._problems.pop(name, None)
        old_text = self.text
        try:
            if name == "prompt":
                self.text = set_prompt(self.text, self.place, typed)
            elif not typed.strip() and name != "name":
                self.text = remove_field(self.text, self.place, name)
            else:
                self.text = set_field(self.text, self.place, name, typed_value(name, typed))
        except (AgentFileError, SettingError) as error:
            self._problems[name] = error.message if isinstance(error, AgentFileError) else str(error)
        if self.text != old_text:
            self._before.append(old_text)
        self._refresh()

    def _faults(self) -> dict[str, str]:
        """The error of loading the text, by the key on whose line it is."""
        try:
            names = [agent.name for agent in self._agents()]
        except AgentFileError as error:
            return {self._field_at(error.line): error.message}
        repeated_name = next((name for name in names if names.count(name) > 1), None)
        return {"name": f"two agents have the name {repeated_name!r}"} if repeated_name is not None else {}

    def _field_at(self, line: int | None) -> str:
        agent = read_agents(self.text)[self.place]
        return next((name for name in FIELDS if agent.lines.get(agent.key_of(name) or "") == line), "")

    def _agent(self) -> Agent | None:
        try:
            return self._agents()[self.place]
        except AgentFileError:
            return None

    def _agents(self) -> list[Agent]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AgentFileWarning)
            return [agent for agent, _ in agents_of(self.text.encode("utf-8"), self.path)]

    # --- How it is shown ----------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Update messages, limits and buttons after an edit."""
        messages = self.messages
        for name, message_html in self._message_of.items():
            text = html.escape(clean(messages.get(name, "")))
            message_html.value = f'<span role="alert" class="boolab-message">{"✕ " if text else ""}{text}</span>'
        self._fill_menus()
        self._show_defaults()
        self._under.show({**_HEADLESS, **self._results()})
        self.save_button.disabled = bool(messages) or not self.changed
        self.undo_button.disabled = not self._before
        self._show_verdict(self._verdict())

    def _fill_menus(self) -> None:
        menus = menus_of(read_agents(self.text), *self._given)
        for name in menus.keys() - self.menus.keys():
            self.fields[name].options = menus[name]
        for name, menu in self.menus.items():
            used_names = names_in(self.fields[name].value)
            menu.options = ["", *(option for option in menus[name] if option not in used_names)]

    def _show_defaults(self) -> None:
        """In an empty field of a limit, the value that applies."""
        applying = self._default_texts()
        for name in AGENT_LIMITS:
            value = applying.get(name)
            self.fields[name].placeholder = HINTS[name] if value is None else f"{value}; a number or none"

    def _default_texts(self) -> dict[str, str]:
        """What holds where a field is empty, by key; without the limits if the agent cannot be read."""
        agent = self._agent()
        if agent is None:
            return dict(_APPLYING)
        policy = policy_of(agent)
        limits = dict(sentence.partition(": ")[::2] for sentence in limits_of(agent, policy))
        values = {name: limits[label_of(name)] for name in AGENT_LIMITS if label_of(name) in limits}
        return {**_APPLYING, **values, "policy": f"{policy} applies", "identity": f"as policy {policy} compares them"}

    def _verdict(self) -> str:
        """What is valid, changed and saved."""
        agent, messages = read_agents(self.text)[self.place], self.messages
        name = str(agent.data.get("name", self.path.stem))
        changed = changes_of(self._saved_text, self.text, self.place)
        return " ".join(filter(None, [verdict_of(name, messages, changed), messages.get("", "")]))

    def _show_verdict(self, text: str) -> None:
        self.verdict.value = f'<span role="status">{html.escape(clean(text))}</span>'

    def _try_saving(self) -> None:
        try:
            self.save()
        except AgentFileError as error:
            self._show_verdict(f"✕ Not saved: {error}")

    def _title(self) -> str:
        return f"{self.path.name}{', changed' if self.changed else ''}"

    def _text(self) -> str:
        data = self._form()
        lines = [
            f"{row['label']}: {row['value']}" + (f"  <- {row['message']}" if row["message"] else "") for row in data
        ]
        return "\n".join([self._verdict(), *lines, *self.effective])

    def _form(self) -> list[dict[str, str]]:
        messages, applying = self.messages, self._default_texts()
        return [
            {
                "name": name,
                "label": label_of(name),
                "value": control.value,
                "applying": applying.get(name, ""),
                "help": HELP.get(name, ""),
                "message": messages.get(name, ""),
            }
            for name, control in self.fields.items()
        ]

    def _parts(self) -> list[PagePart]:
        head = {"title": self._title(), "verdict": self._verdict(), "fields": self._form()}
        return [PagePart("agent_editor", head | self._results())]

    def _results(self) -> dict[str, Any]:
        """What results from the fields: the policy and its limits, the unknown keys, and what saving changes."""
        extra = [{"name": str(name), "value": repr(value)} for name, value in self.extra.items()]
        diff = diff_of(self._saved_text, self.text)
        agent = self._agent()
        policy = "" if agent is None else str(policy_of(agent))
        return {"policy": policy, "limits": self.effective, "extra": extra, "diff": [line._asdict() for line in diff]}


def typed_value(field: str, typed: str) -> Value:
    """The value that was typed into a field."""
    typed = typed.strip()
    if field in AGENT_LIMITS:
        if typed.lower() == "none":
            return "none"
        try:
            return int(typed)
        except ValueError:
            expected = f"an integer >= {LIMITS[field].min_value}"
            msg = f"{typed!r} is not accepted; expected {expected}, none for no limit, or nothing for the default"
            raise SettingError(msg) from None
    if field in LISTS:
        return names_in(typed)
    if field == "temperature":
        try:
            return float(typed)
        except ValueError:
            raise SettingError(f"{typed!r} is not accepted; expected a number") from None
    return typed
