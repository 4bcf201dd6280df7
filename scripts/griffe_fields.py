# SPDX-License-Identifier: Apache-2.0
"""Shows the documentation site how attrs classes and named tuples are made.

mkdocstrings reads the source without running it, so it sees no `__init__` that a decorator or
`NamedTuple` writes, and does not look at `__new__`.  This extension of griffe adds an `__init__`,
with the annotations of the fields.  It reads the source, too: nothing that the package imports
(PySpark, NumPy, psycopg) is needed to show the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import griffe


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
    return griffe.Function("__init__", parameters=griffe.Parameters(*_parameters(cls)), parent=cls)


def _parameters(cls: griffe.Class) -> list[griffe.Parameter]:
    """What `self` is followed by, keyword-only parameters last."""
    new = cls.members.get("__new__")
    if isinstance(new, griffe.Function):
        return list(new.parameters)[1:]
    found: dict[str, griffe.Parameter] = {}
    for each in (*reversed(_bases(cls)), cls):
        if not _has_fields(each):
            continue
        is_tuple = not any(str(one.value).startswith("attrs.") for one in each.decorators)
        only_by_name = any("kw_only=True" in str(one.value) for one in each.decorators)
        for member in each.members.values():
            if isinstance(member, griffe.Attribute) and _is_field(member):
                # A field that is declared anew takes its place among those of the class.
                found.pop(member.name, None)
                name = member.name if is_tuple else member.name.lstrip("_")
                found[member.name] = _parameter(name, member, only_by_name=only_by_name)
    made = [each for each in found.values() if each is not _NOT_MADE]
    return sorted(made, key=lambda each: each.kind is griffe.ParameterKind.keyword_only)


_NOT_MADE = griffe.Parameter("")
"""Stands for a field that `__init__` does not take."""


def _is_field(member: griffe.Attribute) -> bool:
    # Griffe takes `ClassVar` away, and keeps of it that there is none of an instance.
    is_property = "property" in member.labels
    is_shared = str(member.annotation).partition("[")[0] in ("None", "TypeAlias", "ClassVar")
    return "instance-attribute" in member.labels and not is_property and not is_shared


def _parameter(name: str, field: griffe.Attribute, *, only_by_name: bool) -> griffe.Parameter:
    default, options = field.value, {}
    if isinstance(default, griffe.ExprCall) and str(default.function) == "attrs.field":
        given = [each for each in default.arguments if isinstance(each, griffe.ExprKeyword)]
        options = {each.name: str(each.value) for each in given}
        default = "..." if "factory" in options else options.get("default")
    if options.get("init") == "False":
        return _NOT_MADE
    only_by_name = options.get("kw_only", str(only_by_name)) == "True"
    return griffe.Parameter(
        options.get("alias", name).strip("'\""),
        annotation=field.annotation,
        kind=griffe.ParameterKind.keyword_only  # type: ignore[arg-type]
        if only_by_name
        else griffe.ParameterKind.positional_or_keyword,
        default=None if default is None else str(default),
    )


def _bases(cls: griffe.Class) -> list[griffe.Class]:
    """Those of this package that it inherits from, nearest first."""
    try:
        return cls.mro()
    except ValueError:
        # Griffe takes a nested class for its own base where both have one name.
        return []
