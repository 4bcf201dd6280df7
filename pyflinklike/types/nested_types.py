# SPDX-License-Identifier: Apache-2.0
"""The types of lists, arrays and maps, and what all types with parts share.

Each type freezes a value to tuples of frozen parts, and writes it part by part: all elements of all
lists form one column, and all values of one field form another.  So a value costs as much as the
scalars in it, and pyarrow never has to guess a type from Python objects.

None inside a row or tuple is always a value.  In a list or map it is a value only if the element type,
or the map's value type, takes None.  In Java's boxed arrays it is a value, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import K, T, V
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.types.arrow_rows import (
    cut_to_cover,
    elements_of,
    null_mask,
    offsets_of,
    refuse_nulls,
    slice_parts,
)
from pyflinklike.types.row import names_of
from pyflinklike.types.type_information import NO_VALUE, Column, TypeInformation


def require_type(type_info: Any, what: str) -> TypeInformation:
    """Return the type itself.

    Raises:
        DeclarationTypeError: The argument is no `TypeInformation`.
    """
    if isinstance(type_info, TypeInformation):
        return type_info
    example = "write for example Types.LONG(), with ()"
    remedy = instance_of(TypeInformation, type_info, example)
    msg = f"{what} must be a TypeInformation, got {short_repr(type_info)}; {remedy}"
    raise DeclarationTypeError(msg)


def _part(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    require_type(value, attribute.name.strip("_"))


def name_part(outer: TypeInformation, part: str, error: StateValueError) -> StateValueError:
    """Return an error of the whole value that names the part which does not fit."""
    return StateValueError(f"{part} of {outer!r}: {error}")


# Python calls these sequences, but their elements are no values of a user's list.
_TEXTS = (str, bytes, bytearray, memoryview)


def elements_in(value: Any) -> Sequence[Any] | None:
    """Return the elements of a list or another sequence, also of numpy's; None for anything else."""
    if isinstance(value, list):
        return value
    if names_of(value) is not None or isinstance(value, _TEXTS):
        return None  # a row, whose names a list would lose, or a text
    if isinstance(value, Sequence):
        return value
    if isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "tolist"):
        elements = value.tolist()  # a numpy array
        if isinstance(elements, list):
            return elements
    if isinstance(value, Iterable) and hasattr(value, "typecode"):
        return list(value)  # array.array, which is a registered sequence only from Python 3.12 on
    return None


@attrs.frozen(repr=False)
class ListTypeInfo(TypeInformation[list[T]]):
    """LIST: a list, or any other sequence of elements except a str."""

    takes: ClassVar[str] = "a list or another sequence"

    elem_type: TypeInformation[T] = attrs.field(validator=_part, alias="element_type")
    arrow_type: Any = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Derive the Arrow type."""
        object.__setattr__(self, "arrow_type", pa.list_(self.elem_type.arrow_type))

    @property
    def is_identity(self) -> bool:
        """False: the user gets a list."""
        return False

    @property
    def is_pickled(self) -> bool:
        """True if the elements are pickled."""
        return self.elem_type.is_pickled

    @property
    def signature(self) -> str:
        """The kind of list and the signature of its elements."""
        return f"{type(self).__name__}<{self.elem_type.signature}>"

    @property
    def _none_fits(self) -> bool:
        """True if None is an element although the element type does not take it."""
        return False

    def freeze(self, value: Any) -> Any:
        """Return a tuple of frozen elements."""
        return self._freeze(value, self.elem_type.freeze)

    def freeze_key(self, value: Any) -> Any:
        """Return a tuple of elements frozen as keys."""
        return self._freeze(value, _freeze_nested_key(self.elem_type))

    def _freeze(self, value: Any, freeze: Any) -> Any:
        elements = self._sequence(value)
        try:
            if self._none_fits:
                return tuple([None if e is None else freeze(e) for e in elements])
            return tuple(map(freeze, elements))
        except StateValueError as error:
            raise name_part(self, "an element", error) from None

    def _sequence(self, value: Any) -> Sequence[Any]:
        elements = elements_in(value)
        if elements is None:
            raise self._misfit(value)
        return elements

    def thaw(self, stored: Any) -> Any:
        """Return a new list of the user's own elements."""
        elem_type = self.elem_type
        if elem_type.is_identity:
            return list(stored)
        thaw = elem_type.thaw
        return [None if element is None else thaw(element) for element in stored]

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write one column of all elements, and the offset of each list in it."""
        elements = self.elem_type.to_arrow(elements_of(stored))
        return pa.ListArray.from_arrays(
            offsets_of(stored), elements, type=self.arrow_type, mask=null_mask(stored)
        )

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the lists as tuples."""
        elements = cut_to_cover(column, column.values)
        refuse_nulls(elements, self.elem_type.accepts_none or self._none_fits)
        return slice_parts(column, self.elem_type.from_arrow(elements))

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.elem_type!r}>"


@attrs.frozen(repr=False)
class PrimitiveArrayTypeInfo(ListTypeInfo[T]):
    """PRIMITIVE_ARRAY: an array of numbers or booleans; for BYTE see `ByteArrayTypeInfo`."""


@attrs.frozen(repr=False)
class BasicArrayTypeInfo(ListTypeInfo[T | None]):
    """BASIC_ARRAY: an array of boxed numbers or strings, which may hold None."""

    @property
    def _none_fits(self) -> bool:
        return True


@attrs.frozen(repr=False)
class ObjectArrayTypeInfo(ListTypeInfo[T | None]):
    """OBJECT_ARRAY: an array of elements of any type, which may hold None."""

    @property
    def _none_fits(self) -> bool:
        return True


@attrs.frozen(repr=False)
class ByteArrayTypeInfo(TypeInformation[bytes]):
    """PRIMITIVE_ARRAY of BYTE: Python's bytes, as in PyFlink."""

    shown: ClassVar[str] = "PrimitiveArrayTypeInfo<Byte>"
    takes: ClassVar[str] = "bytes"
    written: ClassVar[frozenset[type]] = frozenset({bytes, NO_VALUE})

    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.binary())

    def freeze(self, value: Any) -> Any:
        """Return the bytes themselves."""
        if type(value) is bytes:
            return value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(memoryview(value))
        of_ints = "use bytes(...), or Types.LIST(Types.BYTE()) for a list of ints"
        raise self._misfit(value, "use its encode()" if isinstance(value, str) else of_ints)

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain bytes."""
        return set(map(type, values)) == {bytes}


@attrs.frozen(repr=False)
class MapTypeInfo(TypeInformation[dict[K, V]]):
    """MAP: a dict, stored as pairs in insertion order; sorted if the map itself is a key."""

    takes: ClassVar[str] = "a dict"

    _key_type_info: TypeInformation[K] = attrs.field(validator=_part)
    _value_type_info: TypeInformation[V] = attrs.field(validator=_part)
    arrow_type: Any = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Derive the Arrow type."""
        arrow_type = pa.map_(self._key_type_info.arrow_type, self._value_type_info.arrow_type)
        object.__setattr__(self, "arrow_type", arrow_type)

    @property
    def is_identity(self) -> bool:
        """False: the user gets a dict."""
        return False

    @property
    def is_pickled(self) -> bool:
        """True if the keys or the values are pickled."""
        return self._key_type_info.is_pickled or self._value_type_info.is_pickled

    @property
    def signature(self) -> str:
        """The signatures of key and value."""
        return f"MapTypeInfo<{self._key_type_info.signature}, {self._value_type_info.signature}>"

    def freeze(self, value: Any) -> Any:
        """Return a tuple of pairs."""
        return tuple(self._freeze(value, self._value_type_info.freeze).items())

    def freeze_key(self, value: Any) -> Any:
        """Return a tuple of pairs in an order that does not depend on the dict's."""
        pairs = self._freeze(value, _freeze_nested_key(self._value_type_info)).items()
        # Sorted by their texts, because frozen keys of several types do not compare.
        return tuple(sorted(pairs, key=lambda pair: repr(pair[0])))

    def _freeze(self, value: Any, freeze: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise self._misfit(value)
        freeze_key = self._key_type_info.freeze_key
        try:
            return {freeze_key(key): freeze(item) for key, item in value.items()}
        except StateValueError as error:
            raise name_part(self, "an entry", error) from None

    def thaw(self, stored: Any) -> Any:
        """Return a new dict of the user's own keys and values."""
        thaw_key, thaw = self._key_type_info.thaw_key, self._value_type_info.thaw
        return {thaw_key(key): thaw(value) for key, value in stored}

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write a column of all keys, a column of all values, and the offset of each map in them."""
        pairs = elements_of(stored)
        keys = self._key_type_info.to_arrow([key for key, _ in pairs])
        values = self._value_type_info.to_arrow([value for _, value in pairs])
        return pa.MapArray.from_arrays(
            offsets_of(stored), keys, values, type=self.arrow_type, mask=null_mask(stored)
        )

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the maps as tuples of pairs."""
        keys, values = cut_to_cover(column, column.keys), cut_to_cover(column, column.items)
        refuse_nulls(keys, False)
        refuse_nulls(values, self._value_type_info.accepts_none)
        pairs = zip(self._key_type_info.from_arrow(keys), self._value_type_info.from_arrow(values))
        return slice_parts(column, list(pairs))

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info!r}, {self._value_type_info!r}>"


def _freeze_nested_key(part: TypeInformation) -> Any:
    """Return the function that freezes a part of a key; None stays None if the type allows it."""
    freeze_key = part.freeze_key
    if not part.accepts_none:
        return freeze_key
    return lambda value: None if value is None else freeze_key(value)
