# SPDX-License-Identifier: Apache-2.0
"""A segment's declarations of its tables, so that code which declares one otherwise is refused.

Each segment declares its own tables.  After a change of the program in which the type of values has
grown (`pyflinklike.types.growth`), sections of the former type and of the new one lie side by side
until a compaction writes them all anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import attrs

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.shown import shown_state
from pyflinklike.state.table import REPLICATED, RESERVED_PREFIX, Setting, Shape, TableSpec
from pyflinklike.state.ttl_config import clock_of_ttl
from pyflinklike.types import TypeInformation
from pyflinklike.types.growth import Grow, UngrownError, growth
from pyflinklike.types.signature import type_of

__all__ = ["Declaration", "grown", "settings_said"]

_OTHER_NAME = "declare it as before, or use another name"


@attrs.frozen
class Declaration:
    """What a table was when its entries were written.

    Args:
        name: Name of the state.
        kind: The `kind` of the state's descriptor.
        shape: Value of the table's `Shape`.
        key: Signature of the key type, or empty where entries belong to the key group.
        user_key: Signature of the user key type, or empty.
        value: Signature of the value type, or empty.
        namespace: Signature of the namespace type, or empty.
        settings: Whatever else must stay as it was, sorted by name.
    """

    name: str
    kind: str
    shape: str
    key: str
    user_key: str
    value: str
    namespace: str = ""
    settings: tuple[Setting, ...] = ()

    @classmethod
    def of(cls, spec: TableSpec, key_type: TypeInformation) -> Declaration:
        """Return the declaration that a program makes with a spec."""
        return cls(
            name=spec.name,
            kind=spec.kind,
            shape=spec.shape.value,
            key="" if spec.per_group else key_type.signature,
            user_key=spec.user_key_type.signature if spec.user_key_type else "",
            value=spec.value_type.signature if spec.value_type else "",
            namespace=spec.namespace_type.signature if spec.namespace_type else "",
            settings=spec.settings,
        )

    @classmethod
    def from_json(cls, text: bytes) -> Declaration:
        """Read a declaration from a segment.

        Raises:
            ValueError, TypeError: The text is no declaration.
        """
        return cls.of_fields(json.loads(text))

    def to_json(self) -> bytes:
        """Return the declaration as a segment holds it."""
        fields = self.fields()
        for each in ("namespace", "settings"):  # most tables have none
            if not fields[each]:
                del fields[each]
        return json.dumps(fields, separators=(",", ":")).encode()

    def fields(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        settings = {each.name: each.value for each in self.settings}
        return {**attrs.asdict(self, recurse=False), "settings": settings}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Declaration:
        """Return the declaration that `fields` described; format 2 had no settings.

        Raises:
            ValueError, TypeError: The fields describe none.
        """
        texts = {name: field for name, field in fields.items() if name != "settings"}
        settings = fields.get("settings", {})
        if not isinstance(settings, dict) or not all(
            isinstance(each, str) for each in (*texts.values(), *settings, *settings.values())
        ):
            msg = f"a declaration of other things than text, {fields}"
            raise ValueError(msg)
        Shape(texts["shape"])
        return cls(**texts, settings=_settings_of(settings))

    @property
    def per_group(self) -> bool:
        """Whether the entries belong to the key group and not to a key."""
        return not self.key

    @property
    def is_replicated(self) -> bool:
        """Whether the entries are the same in every key group."""
        return self.kind == REPLICATED

    def check(self, declared: Declaration) -> None:
        """Refuse a program that declares the table otherwise, unless its values grow into that.

        Raises:
            IncompatibleStateError: The declarations differ in a field that must stay, in a setting
                that the program does not accept, or the stored type of the values does not grow
                into the declared one.
        """
        self.check_types(declared)
        self._check_settings(declared)

    def check_types(self, declared: Declaration) -> None:
        """Refuse to read the table under another declaration, whatever the settings are.

        Raises:
            IncompatibleStateError: As in `check`, but not for settings.
        """
        if self == declared:
            return
        for field in ("kind", "shape", "key", "namespace", "user_key"):
            if getattr(self, field) != getattr(declared, field):
                noun = field.replace("_", " ") + ("" if field in ("kind", "shape") else " type")
                raise self._refused(declared, field, noun, _OTHER_NAME)
        if self.value == declared.value:  # also where entries have none, as timers
            return
        try:
            grown(self.value, declared.value)
        except UngrownError as error:
            remedy = f"declare it as before, or change a savepoint of it with {error.remedy}"
            raise self._refused(declared, "value", "value type", remedy, error.why) from error

    def _check_settings(self, declared: Declaration) -> None:
        stored = {each.name: each.value for each in self.settings}
        for now in declared.settings:
            before = stored.get(now.name, now.value)  # an earlier version knew no such setting
            if before != now.value and before not in now.accepts:
                raise IncompatibleStateError(
                    f"{self._what}: restored state keeps {now.name}, {before!r}, got "
                    f"{now.value!r}; {now.remedy or _OTHER_NAME}"
                )

    def check_alike(self, other: Declaration) -> None:
        """Refuse two declarations of one table if neither grows into the other.

        Raises:
            IncompatibleStateError: Neither does.
        """
        try:
            other.check(self)
        except IncompatibleStateError:
            self.check(other)

    def _refused(
        self, declared: Declaration, field: str, noun: str, remedy: str, why: str = ""
    ) -> IncompatibleStateError:
        stored, now = getattr(self, field), getattr(declared, field)
        return IncompatibleStateError(
            f"{self._what}: restored state keeps the {noun} it was written with, {stored!r}, "
            f"got {now!r}{f' ({why})' if why else ''}; {remedy}"
        )

    @property
    def _what(self) -> str:
        return "timers" if self.name.startswith(RESERVED_PREFIX) else shown_state(self.name)


def settings_said(said: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Return the settings of a state from what the record of its operator says."""
    settings, ttl = _settings_of(said.get("settings") or {}), said.get("ttl")
    clock = () if ttl is None else (clock_of_ttl(ttl["time"]),)
    return tuple(sorted((*settings, *clock), key=lambda each: each.name))


def _settings_of(settings: Mapping[str, str]) -> tuple[Setting, ...]:
    return tuple(Setting(name, settings[name]) for name in sorted(settings))


@lru_cache(maxsize=256)
def grown(stored: str, declared: str) -> tuple[TypeInformation, Grow]:
    """Return the stored type of values, and a function that casts its columns to the declared type.

    Args:
        stored: Signature of the type that the values were written with.
        declared: Signature of the type that they are read as.

    Raises:
        UngrownError: The stored type does not grow into the declared one.
    """
    if not stored or not declared:
        msg = "entries with values and entries without do not grow into each other"
        raise UngrownError(msg, "Savepoint.with_state()")
    try:
        before, after = type_of(stored), type_of(declared)
    except IncompatibleStateError as error:
        msg = "one of them is none of Types"
        raise UngrownError(msg, "the version of pyflinklike that wrote it") from error
    return before, growth(before, after)
