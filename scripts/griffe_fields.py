# SPDX-License-Identifier: Apache-2.0
"""Shows the documentation site the signatures that decorators make.

mkdocstrings reads the source without running it, so it sees no `__init__` that a decorator or
`NamedTuple` writes, and does not look at `__new__`.  This extension of griffe adds an `__init__`,
with the annotations of the fields.  Likewise methods under `options_shown` get their options, which
are the fields of a TypedDict.  It reads the source, too: nothing that the package imports
(PySpark, NumPy, psycopg) is needed to show the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import griffe


class GeneratedSignatures(griffe.Extension):
    """Adds each `__init__` that the source does not write, and the options of methods."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Add them when a package is loaded as a whole."""
        for cls in _classes_of(pkg):
            if _has_fields(cls) and "__init__" not in cls.members:
                cls.set_member("__init__", _init_of(cls))
            for member in cls.members.values():
                if isinstance(member, griffe.Function):
                    _show_options(member, pkg)


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


def _parameter(
    name: str, field: griffe.Attribute, *, only_by_name: bool, annotation: Any = None
) -> griffe.Parameter:
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
        annotation=annotation or field.annotation,
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


def _show_options(method: griffe.Function, pkg: griffe.Module) -> None:
    """Replace `**options` of a method under `options_shown` with the options."""
    for each in method.decorators:
        call = each.value
        if isinstance(call, griffe.ExprCall) and str(call.function) == "options_shown":
            kind = pkg[str(call.arguments[0].canonical_path).partition(".")[2]]  # type: ignore[union-attr]
            _replace_options(method, kind, "ProcessOptions")
        elif str(call) == "with_options":
            kind = pkg["testing.operator_harness.HarnessOptions"]
            _replace_options(method, kind, "HarnessSettings")


def _replace_options(method: griffe.Function, kind: griffe.Class, defaults: str) -> None:
    named = [one for one in method.parameters if str(one.kind.value) != "variadic keyword"]
    method.parameters = griffe.Parameters(*named, *_options_of(kind, defaults))


def _options_of(kind: griffe.Class, defaults: str) -> Iterator[griffe.Parameter]:
    """Yield the fields of a TypedDict with the defaults and in the order of the class beside it."""
    fields: dict[str, Any] = {
        name: member for each in (kind, *_bases(kind)) for name, member in each.members.items()
    }
    for name, default in kind.parent[defaults].members.items():  # type: ignore[index]
        if name in fields:
            yield _parameter(name, default, only_by_name=True, annotation=fields[name].annotation)
