# SPDX-License-Identifier: Apache-2.0
"""What a segment says of each table, so that code which declares it otherwise is refused.

Each segment declares its own tables: after a program was changed so that the type of values has
grown (`pyflinklike.types.growth`), sections of the former type and of the new one lie side by side
until a compaction writes them all anew.
"""

from __future__ import annotations

import json
from functools import lru_cache

import attrs

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state.table import REPLICATED, RESERVED_PREFIX, Shape, TableSpec
from pyflinklike.types import TypeInformation
from pyflinklike.types.growth import Grow, UngrownError, growth
from pyflinklike.types.signature import type_of

__all__ = ["Declaration", "grown"]

_OTHER_NAME = "declare it as before, or use another name"


@attrs.frozen
class Declaration:
    """What a table was when its entries were written.

    Args:
        name: Of the state.
        kind: Of the state, as its descriptor's `kind`.
        shape: Value of the table's `Shape`.
        key: Signature of the key type, or empty where entries belong to the key group.
        user_key: Signature of the user key type, or empty.
        value: Signature of the value type, or empty.
        namespace: Signature of the namespace type, or empty.
    """

    name: str
    kind: str
    shape: str
    key: str
    user_key: str
    value: str
    namespace: str = ""

    @classmethod
    def of(cls, spec: TableSpec, key_type: TypeInformation) -> Declaration:
        """The declaration a program makes with a spec."""
        return cls(
            name=spec.name,
            kind=spec.kind,
            shape=spec.shape.value,
            key="" if spec.per_group else key_type.signature,
            user_key=spec.user_key_type.signature if spec.user_key_type else "",
            value=spec.value_type.signature if spec.value_type else "",
            namespace=spec.namespace_type.signature if spec.namespace_type else "",
        )

    @classmethod
    def from_json(cls, text: bytes) -> Declaration:
        """The declaration that a segment holds.

        Raises:
            ValueError, TypeError: It holds something else.
        """
        fields = json.loads(text)
        declaration = cls(**fields)
        if not all(isinstance(field, str) for field in fields.values()):
            msg = f"a declaration of other things than text, {fields}"
            raise ValueError(msg)
        Shape(declaration.shape)
        return declaration

    def to_json(self) -> bytes:
        """The declaration as a segment holds it."""
        fields = attrs.asdict(self)
        if not self.namespace:  # most tables have none
            del fields["namespace"]
        return json.dumps(fields, separators=(",", ":")).encode()

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
            IncompatibleStateError: The declarations differ in what stays as it is, or the stored
                type of the values does not grow into the declared one.
        """
        if self == declared:
            return
        for field in ("kind", "shape", "key", "namespace", "user_key"):
            if getattr(self, field) != getattr(declared, field):
                noun = field.replace("_", " ") + ("" if field in ("kind", "shape") else " type")
                raise self._refused(declared, field, noun, _OTHER_NAME)
        try:
            grown(self.value, declared.value)
        except UngrownError as error:
            remedy = f"declare it as before, or change a savepoint of it with {error.remedy}"
            raise self._refused(declared, "value", "value type", remedy, error.why) from error

    def check_alike(self, other: Declaration) -> None:
        """Refuse two declarations of one table neither of which grows into the other.

        Raises:
            IncompatibleStateError: They are such.
        """
        try:
            other.check(self)
        except IncompatibleStateError:
            self.check(other)

    def _refused(
        self, declared: Declaration, field: str, noun: str, remedy: str, why: str = ""
    ) -> IncompatibleStateError:
        what = "timers" if self.name.startswith(RESERVED_PREFIX) else f"state {self.name!r}"
        stored, now = getattr(self, field), getattr(declared, field)
        return IncompatibleStateError(
            f"{what}: restored state keeps the {noun} it was written with, {stored!r}, "
            f"got {now!r}{f' ({why})' if why else ''}; {remedy}"
        )


@lru_cache(maxsize=256)
def grown(stored: str, declared: str) -> tuple[TypeInformation, Grow]:
    """The stored type of values, and how its columns become those of the declared type.

    Args:
        stored: Signature of the type that they were written with.
        declared: Of the type that they are read as.

    Raises:
        UngrownError: The one does not grow into the other.
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
