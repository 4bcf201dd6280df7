# SPDX-License-Identifier: Apache-2.0
"""Shows the documentation site how attrs classes and named tuples are made.

mkdocstrings reads the source without running it, so it sees no `__init__` that a decorator or
`NamedTuple` writes, and does not look at `__new__`.  This extension of griffe adds an `__init__`:
the signature is the one that `inspect` tells, the annotations are those of the fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any

import attrs
import griffe

_KINDS: dict[Any, Any] = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


class GeneratedInit(griffe.Extension):
    """Adds the `__init__` of classes that have none of their own in the source."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when a package is loaded with all that is in it."""
        for cls in _classes_of(pkg):
            if _has_fields(cls) and "__init__" not in cls.members:
                cls.set_member("__init__", _init_of(cls))


def _classes_of(holder: griffe.Module | griffe.Class) -> Iterator[griffe.Class]:
    for member in list(holder.members.values()):
        if isinstance(member, griffe.Class):
            yield member
        if isinstance(member, (griffe.Module, griffe.Class)):
            yield from _classes_of(member)


def _has_fields(cls: griffe.Class) -> bool:
    decorators = {str(each.value) for each in cls.decorators}
    return (
        "__new__" in cls.members
        or any(each.startswith("attrs.") for each in decorators)
        or "NamedTuple" in {str(each) for each in cls.bases}
    )


def _init_of(cls: griffe.Class) -> griffe.Function:
    signature = inspect.signature(griffe.dynamic_import(cls.path))
    parameters = [
        griffe.Parameter(
            each.name,
            annotation=_annotation(cls, each.name),
            kind=_KINDS[each.kind],
            default=None if each.default is each.empty else _shown(each.default),
        )
        for each in signature.parameters.values()
    ]
    return griffe.Function("__init__", parameters=griffe.Parameters(*parameters), parent=cls)


def _annotation(cls: griffe.Class, name: str) -> Any:
    """What the argument or the field is annotated with, in the class or in one it inherits from."""
    new = cls.members.get("__new__")
    if isinstance(new, griffe.Function):
        return new.parameters[name].annotation
    for each in (cls, *_bases(cls)):
        for field in (name, f"_{name}"):
            declared = each.members.get(field)
            if isinstance(declared, griffe.Attribute):
                return declared.annotation
    return None


def _bases(cls: griffe.Class) -> list[griffe.Class]:
    try:
        return cls.mro()
    except ValueError:
        # Griffe takes a nested class for its own base where both have one name.
        return []


def _shown(default: object) -> str:
    if isinstance(default, Enum):
        return str(default)
    return "..." if default is attrs.NOTHING else repr(default)
