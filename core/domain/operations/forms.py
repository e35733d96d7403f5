"""The form of each operation in words, made from its own definition: what a model is told it may propose. Pure."""

import types
from collections.abc import Collection
from datetime import datetime
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.domain.mind.values import Anchor, Target
from core.domain.operations.catalog import OPERATIONS

_NAMED: dict[type[BaseModel], str] = {Anchor: "Anchor", Target: "Target"}
"""Shapes that many operations share; they are told once."""
_TIME = "time"
"""A model sees no clock: what need not be a time of its making is not told."""


def forms_of(names: Collection[str]) -> str:
    """Return one line for each operation: its name, its fields, and what it does."""
    lines = [f"{name} = {{{_fields(shape)}}}" for shape, name in _NAMED.items()]
    for name in sorted(names):
        operation = OPERATIONS[name]
        told = " ".join((operation.__doc__ or "").split())
        lines.append(f"`{name}` {{{_fields(operation)}}}: {told}")
    return "\n".join(f"- {line}" for line in lines)


def _fields(shape: type[BaseModel]) -> str:
    return ", ".join(
        f"{field.alias or name}{'' if field.is_required() else '?'}{_of(field)}"
        for name, field in shape.model_fields.items()
        if name not in ("operation", "type") and (field.is_required() or _type(field.annotation) != _TIME)
    )


def _of(field: FieldInfo) -> str:
    told = _type(field.annotation)
    return f": {told}" if told else ""


def _type(annotation: Any) -> str:
    """Return a type in the words of JSON; text goes without saying."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "|".join(str(each.value if isinstance(each, Enum) else each) for each in args)
    if origin in (Union, types.UnionType):
        return "|".join(filter(None, (_type(each) for each in args if each is not type(None))))
    if origin in (tuple, list, set, frozenset):
        return f"[{_type(args[0]) or 'text'}]" if args else "[]"
    if origin is dict:
        return "{name: " + (_type(args[1]) or "text") + "}"
    if origin is not None:  # Annotated
        return _type(args[0])
    return _plain(annotation)


def _plain(annotation: Any) -> str:
    if not isinstance(annotation, type):
        return ""
    if issubclass(annotation, Enum):
        return "|".join(str(each.value) for each in annotation)
    if issubclass(annotation, BaseModel):
        return _NAMED.get(annotation) or "{" + _fields(annotation) + "}"
    names = {bool: "true|false", int: "whole number", float: "number", datetime: _TIME}
    return names.get(annotation, "")
