"""YAML files that hold pydantic models: scripts and profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel


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
