# SPDX-License-Identifier: Apache-2.0
"""What a segment says of each table, so that code which declares it otherwise is refused."""

from __future__ import annotations

import json

import attrs

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state.table import REPLICATED, RESERVED_PREFIX, Shape, TableSpec
from pyflinklike.types import TypeInformation

__all__ = ["Declaration"]


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
        """Refuse a program that declares the table otherwise.

        Raises:
            IncompatibleStateError: The declarations differ.
        """
        for field in ("kind", "shape", "key", "namespace", "user_key", "value"):
            stored, now = getattr(self, field), getattr(declared, field)
            if stored != now:
                what = "timers" if self.name.startswith(RESERVED_PREFIX) else f"state {self.name!r}"
                noun = field.replace("_", " ") + ("" if field in ("kind", "shape") else " type")
                msg = (
                    f"{what}: restored state keeps the {noun} it was written with, {stored!r}, "
                    f"got {now!r}; declare it as before, or use another name"
                )
                raise IncompatibleStateError(msg)
