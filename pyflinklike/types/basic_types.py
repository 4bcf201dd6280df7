# SPDX-License-Identifier: Apache-2.0
"""The types without parts: numbers, bools and text."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from decimal import Decimal
from itertools import filterfalse
from operator import eq
from typing import Any, ClassVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._checks import is_int, is_number
from pyflinklike.types.type_information import (
    MISFITS,
    NO_VALUE,
    REMEDY,
    Column,
    TypeInformation,
    plain,
)

# Below so many values, a loop of Python is faster than a call of pyarrow.compute.
_SMALL = 250
_INT64 = pa.int64()
# All stored NaN are this object, so that `is` and a dict find them.
_nan = math.nan
_float32 = struct.Struct("<f")


@attrs.frozen(repr=False)
class IntegralTypeInfo(TypeInformation[int]):
    """BYTE, SHORT, INT or LONG: a Python int in the range of Java's."""

    name: str
    bits: int
    # `low` and `high` are fields, not properties: `freeze` reads them for every value.
    arrow_type: pa.DataType = attrs.field(eq=False)
    low: int = attrs.field(init=False, eq=False)
    high: int = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Compute the range."""
        object.__setattr__(self, "low", -(1 << self.bits - 1))
        object.__setattr__(self, "high", (1 << self.bits - 1) - 1)

    @property
    def adds_up(self) -> bool:
        """True: a sum needs no rounding before it is stored."""
        return True

    def freeze(self, value: Any) -> Any:
        """Return the int itself."""
        # The common case makes no call; bools, numpy's ints and subclasses take the longer way.
        if type(value) is int and self.low <= value <= self.high:
            return value
        return self._convert(value)

    freeze_key = freeze

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain ints in the range."""
        is_int_each = set(map(type, values)) == {int}
        return is_int_each and self.low <= min(values) and max(values) <= self.high

    def _write(self, values: Sequence[Any]) -> Column | None:
        column = pa.array(values)
        # If Arrow got the type, it would cut floats; it infers this type from ints alone.
        if column.type != _INT64:
            return None
        return column if self.bits == 64 else column.cast(self.arrow_type)

    def _convert(self, value: Any) -> int:
        number = plain(value)
        if is_int(number):
            number = int.__int__(number)
            if self.low <= number <= self.high:
                return number
        raise self._misfit(value)

    def _takes(self) -> str:
        return f"an int in -2**{self.bits - 1}..2**{self.bits - 1}-1"

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(repr=False)
class DoubleTypeInfo(TypeInformation[float]):
    """DOUBLE: a float, or an int that is equal to one.  Every NaN is `math.nan`, -0.0 is kept."""

    shown: ClassVar[str] = "Double"
    takes: ClassVar[str] = "a float"
    written: ClassVar[frozenset[type]] = frozenset({float, int, NO_VALUE})

    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.float64())

    @property
    def adds_up(self) -> bool:
        """True: a sum needs no rounding before it is stored."""
        return True

    def freeze(self, value: Any) -> Any:
        """Return the float itself."""
        if type(value) is float:
            return value if value == value else _nan
        number = plain(value)
        if not is_number(number):
            raise self._misfit(value)
        try:
            made = self.freeze(float(number.__float__()))
        except OverflowError:
            raise self._misfit(value) from None
        if is_int(number) and made != number:
            raise self._misfit(value, "no float is equal to it: round it with float(...)")
        return made

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain floats, and none is NaN."""
        return set(map(type, values)) == {float} and all(map(eq, values, values))

    def freeze_key(self, value: Any) -> Any:
        """Return the float; zero loses its sign, because 0.0 and -0.0 are one key."""
        return self.freeze(value) or 0.0

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the floats; every NaN becomes the one NaN."""
        values: list[Any] = column.to_pylist()
        if len(values) < _SMALL:  # the usual case, and a call of pyarrow.compute costs 5 us
            any_nan = any(value != value for value in values)
        else:
            any_nan = pc.any(pc.is_nan(column)).as_py()
        if any_nan:
            return [value if value == value else _nan for value in values]
        return values


@attrs.frozen(repr=False)
class FloatTypeInfo(DoubleTypeInfo):
    """FLOAT: a float rounded to 32 bits; a float beyond their range is refused."""

    shown: ClassVar[str] = "Float"
    takes: ClassVar[str] = "a float within 32 bits"

    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.float32())

    @property
    def adds_up(self) -> bool:
        """False: each sum is rounded."""
        return False

    def freeze(self, value: Any) -> Any:
        """Return the nearest float of 32 bits."""
        number = value if type(value) is float else DoubleTypeInfo.freeze(self, value)
        try:
            rounded = _float32.unpack(_float32.pack(number))[0]
        except OverflowError:
            raise self._misfit(value) from None
        return rounded if rounded == rounded else _nan

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain floats of 32 bits, and none is NaN."""
        is_float = set(map(type, values)) == {float}
        return is_float and array("f", values).tolist() == list(values)

    def _write(self, values: Sequence[Any]) -> Column | None:
        column = super()._write(values)
        # Arrow makes a float beyond 32 bits infinite, but the rules refuse it.
        is_sure = column is not None and not pc.any(pc.is_inf(column)).as_py()
        return column if is_sure else None


@attrs.frozen(repr=False)
class BooleanTypeInfo(TypeInformation[bool]):
    """BOOLEAN: True or False, never a number."""

    shown: ClassVar[str] = "Boolean"
    takes: ClassVar[str] = "True or False"

    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.bool_())

    def freeze(self, value: Any) -> Any:
        """Return the bool itself."""
        if value is True or value is False:
            return value
        flag = plain(value)
        if type(flag) is bool:
            return flag
        raise self._misfit(value)

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain bools."""
        return set(map(type, values)) == {bool}

    def _write(self, values: Sequence[Any]) -> Column | None:
        return pa.array(values, self.arrow_type)  # Arrow takes nothing else for a bool


@attrs.frozen(repr=False)
class StringTypeInfo(TypeInformation[str]):
    """STRING: any str that UTF-8 can write, or None."""

    shown: ClassVar[str] = "String"
    takes: ClassVar[str] = "a str"
    accepts_none: ClassVar[bool] = True
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.string())

    def freeze(self, value: Any) -> Any:
        """Return the str itself."""
        # ASCII has no lone surrogates, so it need not be encoded to check.
        if type(value) is str and value.isascii():
            return value
        return None if value is None else self._convert(value)

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain texts that UTF-8 can write."""
        if set(map(type, values)) != {str}:
            return False
        try:
            for text in filterfalse(str.isascii, values):
                text.encode()
        except UnicodeEncodeError:
            return False
        return True

    def freeze_key(self, value: Any) -> Any:
        """Return the str itself."""
        if type(value) is str and value.isascii():
            return value
        return self._convert(value)

    def _write(self, values: Sequence[Any]) -> Column | None:
        column = pa.array(values)
        # If Arrow got the type, it would decode bytes; it infers this type from texts alone.
        return column if column.type == self.arrow_type else None

    def _convert(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._misfit(value, "use its decode()" if isinstance(value, bytes) else REMEDY)
        text = str.__str__(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._misfit(value, "replace its lone surrogates") from None
        return text


@attrs.frozen(repr=False)
class CharTypeInfo(StringTypeInfo):
    """CHAR: a str of one character."""

    shown: ClassVar[str] = "Character"
    takes: ClassVar[str] = "a str of one character"
    accepts_none: ClassVar[bool] = False

    def freeze(self, value: Any) -> Any:
        """Return the str itself."""
        text = self._convert(value)
        if len(text) == 1:
            return text
        raise self._misfit(value)

    freeze_key = freeze

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain texts of one character."""
        return StringTypeInfo.are_stored(self, values) and set(map(len, values)) == {1}

    # A text may be too long, and Arrow would not see that: so each value goes through `freeze`.
    def _write(self, values: Sequence[Any]) -> Column | None:  # noqa: ARG002
        return None

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the characters.

        Raises:
            ValueError: A text is longer or shorter than one character.
        """
        texts: list[Any] = column.to_pylist()
        if any(text is not None and len(text) != 1 for text in texts):
            msg = "a text that is not one character"
            raise ValueError(msg)
        return texts


@attrs.frozen(repr=False)
class BigIntTypeInfo(TypeInformation[int]):
    """BIG_INT: any int, or None.

    The column holds decimal text.  An int of more than 2048 bits is hexadecimal text, because Python
    may refuse to print it in decimal (`sys.set_int_max_str_digits`).
    """

    shown: ClassVar[str] = "BigInteger"
    takes: ClassVar[str] = "an int"
    accepts_none: ClassVar[bool] = True
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.string())

    def freeze(self, value: Any) -> Any:
        """Return the int itself."""
        if type(value) is int or value is None:
            return value
        number = plain(value)
        if is_int(number):
            return int.__int__(number)
        raise self._misfit(value)

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write the ints as text."""
        texts = [
            None if n is None else str(n) if n.bit_length() <= 2048 else hex(n) for n in stored
        ]
        return pa.array(texts, type=self.arrow_type)

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the ints from their texts."""
        return [None if text is None else int(text, 0) for text in column.to_pylist()]


@attrs.frozen(repr=False)
class BigDecTypeInfo(TypeInformation[Decimal]):
    """BIG_DEC: a finite `decimal.Decimal`, or None.

    The stored form is text, because 1.0 and 1.00 are different keys in Java, and equal in Python.
    """

    shown: ClassVar[str] = "BigDecimal"
    takes: ClassVar[str] = "a finite decimal.Decimal"
    accepts_none: ClassVar[bool] = True
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.string())

    @property
    def is_identity(self) -> bool:
        """False: the stored form is text."""
        return False

    def freeze(self, value: Any) -> Any:
        """Return the text of the number."""
        if value is None:
            return None
        number = plain(value)
        if is_int(number):
            number = Decimal(number)
        if not isinstance(number, Decimal) or not number.is_finite():
            raise self._misfit(value)
        # Java has no negative zero, and writes the exponent with a capital E.
        return Decimal.__str__(number if number else number.copy_abs()).upper()

    def thaw(self, stored: Any) -> Any:
        """Return the number of the text."""
        return None if stored is None else Decimal(stored)

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the texts.

        Raises:
            ArithmeticError: A text is no number.
        """
        texts: list[Any] = column.to_pylist()
        for text in texts:
            if text is not None:
                Decimal(text)  # damaged text is refused here, not when the user reads it
        return texts


@attrs.frozen(repr=False)
class DecimalTypeInfo(TypeInformation[Decimal]):
    """The type of a column of decimals: a finite `Decimal`, an int, or None.

    Args:
        precision: The number of digits, at most 38.
        scale: The number of digits behind the point.
    """

    accepts_none: ClassVar[bool] = True
    written: ClassVar[frozenset[type]] = frozenset({Decimal, int, NO_VALUE})

    precision: int
    scale: int
    arrow_type: pa.DataType = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Derive the Arrow type."""
        object.__setattr__(self, "arrow_type", pa.decimal128(self.precision, self.scale))

    def freeze(self, value: Any) -> Any:
        """Return the number with the scale of the column."""
        if (type(value) is Decimal and self._has_its_digits(value)) or value is None:
            return value
        number = plain(value)
        if is_int(number):
            number = Decimal(number)
        if isinstance(number, Decimal):
            try:
                # Arrow refuses a number that it would have to round.
                return pa.array([number], self.arrow_type)[0].as_py()
            except MISFITS:
                pass
        rounded = f"round(Decimal(str(value)), {self.scale})"
        raise self._misfit(value, f"round it by {rounded}, or declare more digits")

    def _has_its_digits(self, value: Decimal) -> bool:
        """Return whether the column keeps every digit of a value, also its zeros at the end."""
        # Arrow gives the same answer in 20 times the time.
        sign, digits, exponent = value.as_tuple()
        is_of_scale = exponent == -self.scale and len(digits) <= self.precision
        return is_of_scale and (not sign or any(digits))

    def _takes(self) -> str:
        before = self.precision - self.scale
        return f"a Decimal or int of {before} digits before the point and {self.scale} behind it"

    def __repr__(self) -> str:
        return f"decimal({self.precision},{self.scale})"
