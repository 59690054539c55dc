"""`WrittenCalls`: tool calls as text that a grammar forces, for models whose server has no tools of its own.

Small models have no template for tools, so their server drops the tools of a request, often with HTTP 200. Here each
request is written anew: the calls on record are texts of the assistant, results are messages of the user, and a grammar
made of the tools' schemas allows one call, or the final answer, and nothing else. The text that comes back is read as
that call, or as the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from boolab.core.messages import Message, Text
from boolab.core.types import Response, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.io.checks import repr_of
from boolab.runtime.models.base import Emit, Request, traits_of
from boolab.runtime.models.remote.model import OpenAIModel
from boolab.runtime.tools.tool import ToolSpec

Form: TypeAlias = Literal["command", "json"]
Schema: TypeAlias = Mapping[str, Any]

ANSWER: Final = "answer"
"""The word that begins the final answer."""
_ANY_TEXT: Final[Schema] = {"type": "string"}
_BARE: Final = re.compile(r"[A-Za-z0-9_./:@%+-]+")
_WORD_RULE: Final = "[A-Za-z0-9_./:@%+-]{1,80}"
_QUOTED_RULE: Final = r'"\"" ( [^"\\\x00-\x1f] | "\\" ["\\/bfnrt] ){0,400} "\""'
_LINE_RULE: Final = r"[^\n\x00-\x1f]{1,400}"
_SIMPLE_RULES: Final[Mapping[str, str]] = {
    "integer": '"-"? [0-9]{1,15}',
    "number": '"-"? [0-9]{1,15} ( "." [0-9]{1,15} )?',
    "boolean": '( "true" | "false" )',
    "null": '"null"',
    "string": f"( {_WORD_RULE} | {_QUOTED_RULE} )",
}


class _Tool(NamedTuple):
    """What the model needs to know of a tool: its name, and the JSON schema of its arguments."""

    name: str
    parameters: Schema


class _Read(NamedTuple):
    """The content of a response: a call as its name and its arguments, or the final answer."""

    call: tuple[str, str] | None
    answer: str


class WrittenCalls:
    """A model that writes its tool calls as text, forced by a grammar made of the tools' schemas.

    Each response is one call or the final answer. The tools are not sent: name them in the system prompt, with a few
    whole examples in the same form, as small models need them.

    Args:
        model: A model of a server that takes a grammar. `form="command"` needs `grammar` in a request's body, in
            llama.cpp's GBNF (llama.cpp, llamafile, LocalAI); `form="json"` needs `response_format` with a JSON schema
            (llama.cpp, vLLM, LM Studio, Ollama).
        form: How a call is written. `command`: `edit up`, `answer done`: the values of the required arguments in their
            order, the others as `name=value`; a text with other characters than those of a word is in double quotes. A
            third of the tokens of `json`: `{"tool": "edit", "arguments": {"how": "up"}}`, `{"answer": "done"}`.
        answer: The JSON schema of the final answer, such as `{"enum": ["yes", "no"]}`; by default any text.

    Raises:
        SettingError: if the model is no `OpenAIModel`, the form is neither, or a schema cannot be written in it.

    Example:
        >>> import boolab as bl
        >>> model = bl.OpenAIModel("smollm2", base_url="http://127.0.0.1:8080/v1", max_tokens=60)
        >>> bl.models.WrittenCalls(model, answer={"enum": ["done"]}).name
        'smollm2'
    """

    def __init__(self, model: OpenAIModel, *, form: Form = "command", answer: Schema = _ANY_TEXT) -> None:
        model_value: object = model
        if not isinstance(model_value, OpenAIModel):
            msg = f"model={repr_of(model_value)}: expected a bl.OpenAIModel, whose server takes a grammar"
            raise SettingError(msg)
        if form not in get_args(Form):
            raise SettingError(f"form={repr_of(form)}: expected one of {', '.join(get_args(Form))}")
        self.name = model.name
        self.form: Form = form
        self.answer = answer
        self.context_window = model.context_window
        self.concurrency = traits_of(model).concurrency
        self._model = model
        self._constrained = lru_cache(maxsize=32)(self._constrain)
        _grammar_of((), answer) if form == "command" else _schema_of((), answer)

    def __repr__(self) -> str:
        return f"<WrittenCalls {self.form} of {self._model!r}>"

    def __reduce__(self) -> tuple[Callable[..., WrittenCalls], tuple[Any, ...]]:
        return _rebuilt, (self._model, self.form, dict(self.answer))

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What makes two models equal: see `boolab.sweeps.fingerprints`."""
        return (self._model, self.form, dict(self.answer))

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer a request with one call, or with the final answer.

        Args:
            request: The messages, the tools and the number of the request in its run.
            emit: Receives the text of an answer, and each call, once they are complete.

        Returns:
            The response. Text that is neither a call nor an answer stays text: it was cut off, or the server ignored
            the grammar, as an event `ignored` records.

        Raises:
            ModelError: if the model failed.
        """
        written = request._replace(messages=tuple(self._write_all(request.messages, request.tools)), tools=())
        if request.purpose != "step":
            return await self._model.respond(written, emit)
        tools = request.tools if request.tool_choice == "auto" else ()
        offered = json.dumps([(tool.name, tool.parameters) for tool in tools])
        response = await self._constrained(offered).respond(written, None)
        try:
            read = self._read(response.text, tools)
        except ValueError as error:
            if response.finish_reason != "length" and request.note is not None:
                request.note(
                    "ignored", what="the server ignored the grammar", parameter=self._parameter, error=str(error)
                )
            return response
        if read.call is None:
            if emit is not None:
                emit("text", read.answer)
            return response._replace(text=read.answer)
        call = ToolCall(f"call_{request.index + 1}", *read.call)
        if emit is not None:
            emit("tool_call", call.name)
        return response._replace(text="", tool_calls=(call,), finish_reason="tool_calls")

    @property
    def _parameter(self) -> str:
        return "grammar" if self.form == "command" else "response_format"

    def _constrain(self, offered: str) -> OpenAIModel:
        """The model with the grammar of these tools, given as JSON, in each request."""
        tools = [_Tool(*tool) for tool in json.loads(offered)]
        if self.form == "command":
            return self._model.with_parameters(grammar=_grammar_of(tools, self.answer))
        schema = {"name": "call", "strict": True, "schema": _schema_of(tools, self.answer)}
        return self._model.with_parameters(response_format={"type": "json_schema", "json_schema": schema})

    def _write_all(self, messages: Iterable[Message], tools: Sequence[ToolSpec]) -> Iterator[Message]:
        """The messages in texts of the system, the user and the assistant alone, none of them twice in a row."""
        role, texts = "", list[str]()
        for message in messages:
            if message.role == "sentinel":
                continue
            new_role, text = self._write(message, tools)
            if texts and new_role != role:
                yield Message(role, (Text("\n".join(texts)),))  # type: ignore[arg-type] # one of the three
                texts = []
            role = new_role
            texts.append(text)
        if texts:
            yield Message(role, (Text("\n".join(texts)),))  # type: ignore[arg-type] # one of the three

    def _write(self, message: Message, tools: Sequence[ToolSpec]) -> tuple[str, str]:
        if message.role == "tool":
            return "user", "\n".join(part.content for part in message.parts if isinstance(part, ToolResult))
        if message.role != "assistant":
            return message.role, message.text
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        if calls:
            return "assistant", "\n".join(self._write_call(call, tools) for call in calls)
        return "assistant", f"{ANSWER} {message.text}" if self.form == "command" else json.dumps({ANSWER: message.text})

    def _write_call(self, call: ToolCall, tools: Sequence[ToolSpec]) -> str:
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError:
            arguments = {}
        arguments = arguments if isinstance(arguments, dict) else {}
        if self.form == "json":
            return json.dumps({"tool": call.name, "arguments": arguments})
        tool = next((one for one in tools if one.name == call.name), None)
        # A summary is asked for without tools: its calls are written as before, so that the server has their tokens.
        required = [*arguments] if tool is None else [name for name in _arguments_of(tool)[0] if name in arguments]
        first = [_word_of(arguments[name]) for name in required]
        others = [f"{name}={_word_of(value)}" for name, value in arguments.items() if name not in required]
        return " ".join([call.name, *first, *others])

    def _read(self, text: str, tools: Sequence[ToolSpec]) -> _Read:
        """The call or the answer in a response; a `ValueError` if it is neither."""
        return _read_json(text, tools) if self.form == "json" else _read_command(text, tools)


def _rebuilt(model: OpenAIModel, form: Form, answer: Schema) -> WrittenCalls:
    return WrittenCalls(model, form=form, answer=answer)


# --- As JSON ----------------------------------------------------------------------------------------------------------


def _schema_of(tools: Sequence[_Tool], answer: Schema) -> dict[str, Any]:
    """The JSON schema of a response: a call of one of the tools, or the answer."""
    calls = [_object_of({"tool": {"const": tool.name}, "arguments": _closed(tool.parameters)}) for tool in tools]
    return {"anyOf": [*calls, _object_of({ANSWER: dict(answer)})]}


def _object_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _closed(parameters: Schema) -> dict[str, Any]:
    """The schema of a tool's arguments, without further ones: a server would let the model invent some."""
    return {**parameters, "additionalProperties": False}


def _read_json(text: str, tools: Sequence[ToolSpec]) -> _Read:
    value = json.loads(text)
    if not isinstance(value, dict):
        msg = f"expected a JSON object, got {text[:80]!r}"
        raise ValueError(msg)  # noqa: TRY004 - the text is wrong, not a type of ours
    if ANSWER in value:
        answer = value[ANSWER]
        return _Read(None, answer if isinstance(answer, str) else json.dumps(answer))
    name = value.get("tool")
    if name not in {tool.name for tool in tools}:
        msg = f"no tool is called {name!r}"
        raise ValueError(msg)
    return _Read((name, json.dumps(value.get("arguments", {}))), "")


# --- As a command -----------------------------------------------------------------------------------------------------


def _grammar_of(tools: Sequence[_Tool], answer: Schema) -> str:
    """The grammar of a response in llama.cpp's GBNF: a call of one of the tools, or the answer."""
    lines = [*map(_command_rule, tools), f"{_quote(f'{ANSWER} ')} {_answer_rule(answer)}"]
    return "root ::= " + " | ".join(f"( {line} )" for line in lines)


def _command_rule(tool: _Tool) -> str:
    if tool.name == ANSWER:
        raise SettingError(f"the tool {tool.name!r} has the name of the final answer: rename it, or use form='json'")
    required, optional = _arguments_of(tool)
    parts = [_quote(tool.name)]
    parts += [f'" " {_value_rule(schema, tool.name, name)}' for name, schema in required.items()]
    parts += [f"( {_quote(f' {name}=')} {_value_rule(schema, tool.name, name)} )?" for name, schema in optional.items()]
    return " ".join(parts)


def _arguments_of(tool: _Tool | ToolSpec) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The schemas of the required arguments of a tool, and of the others, in their order."""
    properties, required = tool.parameters.get("properties", {}), tool.parameters.get("required", ())
    first = {name: properties[name] for name in properties if name in required}
    return first, {name: schema for name, schema in properties.items() if name not in first}


def _answer_rule(answer: Schema) -> str:
    return _LINE_RULE if answer.get("type") == "string" and "enum" not in answer else _value_rule(answer, "", ANSWER)


def _value_rule(schema: Schema, tool: str, name: str) -> str:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        return "( " + " | ".join(_quote(_word_of(value)) for value in values) + " )"
    rules = [_SIMPLE_RULES.get(kind, "") for kind in _types_of(schema)]
    if not rules or not all(rules):
        owner = f"the argument {name!r} of the tool {tool!r}" if tool else "the answer"
        raise SettingError(
            f"{owner} cannot be written as a word: expected a text, a number, a flag or one of given values; "
            "form='json' writes any schema"
        )
    return rules[0] if len(rules) == 1 else "( " + " | ".join(rules) + " )"


def _types_of(schema: Schema) -> list[str]:
    alternatives = schema.get("anyOf")
    if isinstance(alternatives, Sequence):
        return [kind for alternative in alternatives for kind in _types_of(alternative)]
    kind = schema.get("type", "")
    return [kind] if isinstance(kind, str) else list(kind)


def _quote(text: str) -> str:
    """A text as a literal of a grammar."""
    return json.dumps(text)


def _word_of(value: object) -> str:
    """A value as a word of a command: a text with other characters, or one that reads as another value, in quotes."""
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _BARE.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def _read_command(text: str, tools: Sequence[ToolSpec]) -> _Read:
    line = text.strip("\n")
    if line.startswith(f"{ANSWER} "):
        return _Read(None, line.removeprefix(f"{ANSWER} "))
    name, _, rest = line.partition(" ")
    tool = next((one for one in tools if one.name == name), None)
    if tool is None:
        msg = f"no tool is called {name!r}"
        raise ValueError(msg)
    required, optional = _arguments_of(tool)
    arguments: dict[str, Any] = {}
    for argument, schema in required.items():
        arguments[argument], rest = _take_value(rest, schema)
    while rest:
        argument, equals, rest = rest.partition("=")
        if not equals or argument not in optional:
            msg = f"{name} has no argument {argument!r}"
            raise ValueError(msg)
        arguments[argument], rest = _take_value(rest, optional[argument])
    return _Read((name, json.dumps(arguments)), "")


def _take_value(rest: str, schema: Schema) -> tuple[Any, str]:
    """The first value of a rest of a command, and what follows it."""
    if rest.startswith('"'):
        value, end = json.JSONDecoder().raw_decode(rest)
        return value, rest[end:].removeprefix(" ")
    word, _, rest = rest.partition(" ")
    if not word:
        msg = "an argument is missing"
        raise ValueError(msg)
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is not None:
        found = next((value for value in allowed if _word_of(value) == word), None)
        if found is None:
            msg = f"{word!r} is none of {allowed}"
            raise ValueError(msg)
        return found, rest
    return (word if "string" in _types_of(schema) else json.loads(word)), rest
