# SPDX-License-Identifier: Apache-2.0
"""The type of any Python object, kept as pickled bytes.

An int, float, str, bytes, bool or None is immutable, so it is stored as it is.  Everything else is
pickled by `freeze` and unpickled by `thaw`, and never in between: to rebuild state from columns, no
pickle is read.

PyFlink compares keys by their pickled bytes: 1, 1.0 and True are three keys.  Here str, int and bytes
keys keep their form, because Python never takes one for another.  All other keys become bytes.  They
are pickled without a memo, so that `("a", "a")` is the same key whether or not its parts are one object.

A cell of the column is a pickle, which starts with 0x80, or a letter and the scalar.

A pickle is a program: its writer decides what runs when it is read.  State is unpickled only if the
program declares `Types.PICKLED_BYTE_ARRAY()`, and never while the switch below is off.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Callable, Sequence
from math import nan
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from pyflinklike._messages import shown_error
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    StateValueError,
)
from pyflinklike.types.type_information import Column, TypeInformation

_PICKLE = 0x80  # the opcode PROTO, first byte of every pickle since protocol 2
_float64 = struct.Struct("<d")
# Floats are missing: every NaN must become the same object.
_scalars = frozenset({int, str, bytes, bool, type(None)})
# Python takes 1, 1.0 and True for one key, so of these only int is kept as it is.
_key_scalars = frozenset({int, str, bytes})


class Pickled(bytes):
    """A pickled object; it never equals a user's own bytes."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return whether the other is the same pickle; plain bytes are never equal to it."""
        return type(other) is Pickled and bytes.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """Return the opposite of equal."""
        return not self == other

    __hash__ = bytes.__hash__


@attrs.frozen(repr=False)
class PickledByteArrayTypeInfo(TypeInformation[Any]):
    """PICKLED_BYTE_ARRAY: any object that pickle takes, None included."""

    shown: ClassVar[str] = "PickledByteArrayTypeInfo"
    takes: ClassVar[str] = "an object that pickle can write"
    accepts_none: ClassVar[bool] = True
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.binary())

    @property
    def is_identity(self) -> bool:
        """False: `thaw` unpickles what was pickled."""
        return False

    @property
    def is_pickled(self) -> bool:
        """True: that is what the type is for."""
        return True

    def freeze(self, value: Any) -> Any:
        """Return an immutable scalar itself, and the pickle of anything else."""
        cls = type(value)
        if cls in _scalars:
            return value
        if cls is float:
            return value if value == value else nan
        return Pickled(self._dump(value, _dumps))

    def freeze_key(self, value: Any) -> Any:
        """Return a str, int or bytes itself, and the pickle of anything else."""
        cls = type(value)
        if cls in _key_scalars:
            return value
        if value is None:
            raise self._misfit(value, "a map key is never None")
        if cls is float:
            value = (value or 0.0) if value == value else nan
        return Pickled(self._dump(value, _dumps_without_memo))

    def thaw(self, stored: Any) -> Any:
        """Return the scalar itself, or a new object."""
        return pickle.loads(stored) if type(stored) is Pickled else stored  # noqa: S301

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write a cell of bytes for each value."""
        cells = [None if v is None else _ENCODERS[type(v)](v) for v in stored]
        return pa.array(cells, type=self.arrow_type)

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the scalars and pickles of the cells."""
        return [
            None if cell is None else Pickled(cell) if cell[0] == _PICKLE else _decode(cell)
            for cell in column.to_pylist()
        ]

    def _dump(self, value: Any, dumps: Callable[[Any], bytes]) -> bytes:
        try:
            return dumps(value)
        except Exception as error:
            remedy = (
                f"pickling failed with {shown_error(error)}; "
                "define its class in a module, and leave out locks, files and lambdas"
            )
            raise self._misfit(value, remedy) from error

    def _misfit(self, value: Any, remedy: str = "") -> StateValueError:
        return StateValueError(
            f"type {self!r} takes {self._takes()}, got a {type(value).__name__}; {remedy}"
        )


def _dumps(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)


def _dumps_without_memo(value: Any) -> bytes:
    """Return a pickle that is the same whether or not equal parts are one object."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.fast = True
    try:
        pickler.dump(value)
    except (ValueError, RecursionError):  # the value contains itself
        return _dumps(value)
    return buffer.getvalue()


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Pickled: lambda v: v,
    str: lambda v: b"s" + v.encode("utf-8", "surrogatepass"),
    int: lambda v: b"i" + v.to_bytes(v.bit_length() // 8 + 1, "little", signed=True),
    float: lambda v: b"f" + _float64.pack(v),
    bytes: lambda v: b"b" + v,
    bool: lambda v: b"T" if v else b"F",
}


def _float(cell: bytes) -> float:
    value: float = _float64.unpack_from(cell, 1)[0]
    return value if value == value else nan


_DECODERS: dict[int, Callable[[bytes], Any]] = {
    ord("s"): lambda cell: cell[1:].decode("utf-8", "surrogatepass"),
    ord("i"): lambda cell: int.from_bytes(cell[1:], "little", signed=True),
    ord("f"): _float,
    ord("b"): lambda cell: cell[1:],
    ord("T"): lambda _: True,
    ord("F"): lambda _: False,
}


def _decode(cell: bytes) -> Any:
    decoder = _DECODERS.get(cell[0])
    if decoder is None:
        msg = f"a cell of pickled state starts with a known tag, got {cell[:1]!r}; restore another snapshot"
        raise CorruptStateError(msg)
    return decoder(cell)


# The switch that refuses unpickling

ALLOW_PICKLE = "PYFLINKLIKE_ALLOW_PICKLE"
"""An environment variable: if it is 0, nothing is unpickled, whatever a program allows."""

_YES, _NO = frozenset({"", "1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def pickle_allowed(allow_pickle: Any) -> bool:
    """Return whether state may be unpickled: both the program and the environment must allow it.

    Args:
        allow_pickle: The program's setting, which may have any type.

    Raises:
        DeclarationTypeError: `allow_pickle` is no bool.
        DeclarationValueError: The environment variable is neither yes nor no.
    """
    if not isinstance(allow_pickle, bool):
        msg = f"allow_pickle takes True or False, got {allow_pickle!r}"
        raise DeclarationTypeError(msg)
    said = os.environ.get(ALLOW_PICKLE, "").strip().lower()
    if said not in _YES | _NO:
        msg = f"the environment variable {ALLOW_PICKLE} must be 0 or 1, got {said!r}; set it so"
        raise DeclarationValueError(msg)
    return allow_pickle and said not in _NO


def check_pickled(what: str, *types: TypeInformation | None) -> None:
    """Refuse types whose values would be unpickled when they are read, if the switch is off.

    Raises:
        DeclarationValueError: One of the types is, or contains, such a type.
    """
    for each in types:
        if each is not None and each.is_pickled:
            msg = (
                f"{what}: nothing is unpickled if allow_pickle is False or {ALLOW_PICKLE} is 0, "
                f"got a declaration of {each!r}; declare another type"
            )
            raise DeclarationValueError(msg)
