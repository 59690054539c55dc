"""YAML files that hold pydantic models: scripts and profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from boolab.errors import ProfileError, ScriptError
from boolab.io.files import read_file
from boolab.io.yaml_loader import MAX_BYTES, Document, DocumentError, read_yaml


def read_document(path: Path, fault: type[ScriptError | ProfileError]) -> Document:
    """Read a YAML file; whatever is wrong with it is a `fault` with its path and, if known, its line."""
    try:
        return read_yaml(read_file(path, MAX_BYTES).decode())
    except OSError as error:
        msg = f"cannot be read: {error.strerror}"
        raise fault(msg, path=path) from error
    except UnicodeDecodeError as error:
        msg = "is not UTF-8 text"
        raise fault(msg, path=path) from error
    except DocumentError as error:
        raise fault(error.message, path=path, line=error.line) from error


def accepted_keys(model: type[BaseModel], place: Sequence[int | str]) -> str:
    """The keys that are accepted where the last part of `place` was not."""
    for name in place[:-1]:
        field = model.model_fields.get(str(name))
        model = (field and _model_in(field.annotation)) or model
    return ", ".join(sorted(model.model_fields))


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
