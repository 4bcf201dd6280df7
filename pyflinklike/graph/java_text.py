# SPDX-License-Identifier: Apache-2.0
"""Elements as text, as Flink's Java writes them: for `print` and for files.

`java_text` writes what `toString` returns for the Java object that PyFlink makes of an element of a
type.  `print_text` writes what `DataStream.print` writes: untyped elements as Python writes them,
and rows as PyFlink itself puts them together.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pyflinklike.types import PickledByteArrayTypeInfo, TypeInformation
from pyflinklike.types.basic import FloatTypeInfo
from pyflinklike.types.rows import RowTypeInfo, TupleTypeInfo

__all__ = ["java_text", "print_text"]


def print_text(value: Any, type_info: TypeInformation) -> str:
    """Return the text that `print` writes for an element, without the prefix.

    Args:
        value: The element.
        type_info: The type of the element.
    """
    if isinstance(type_info, PickledByteArrayTypeInfo):
        return str(value)
    if isinstance(type_info, RowTypeInfo) and value is not None:
        return f"{_kind_of(value)}[{','.join(str(field) for field in value)}]"
    return java_text(value, type_info)


def java_text(value: Any, type_info: TypeInformation) -> str:
    """Return the text that Java writes for an element.

    Args:
        value: The element.
        type_info: The type of the element; where Java has no such type, the value decides.
    """
    if value is None:
        return "null"
    if isinstance(type_info, RowTypeInfo):
        fields = _texts(value, type_info.field_types)
        return f"{_kind_of(value)}[{', '.join(fields)}]"
    if isinstance(type_info, TupleTypeInfo):
        return f"({','.join(_texts(value, type_info.field_types))})"
    if isinstance(type_info, FloatTypeInfo):
        return _float_text(value)
    parts = [getattr(type_info, name, None) for name in _PARTS]
    return _text(value, [part for part in parts if isinstance(part, TypeInformation)])


_PARTS = ("elem_type", "_key_type_info", "_value_type_info")


def _texts(values: Any, types: tuple[TypeInformation, ...]) -> list[str]:
    return [java_text(value, part) for value, part in zip(values, types)]


def _kind_of(row: Any) -> str:
    kind = getattr(row, "get_row_kind", None)
    return "+I" if kind is None else str(kind())


def _text(value: Any, parts: list[TypeInformation]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, (bytes, bytearray)):
        return f"[{', '.join(str(b - 256 if b > 127 else b) for b in value)}]"
    if isinstance(value, (list, tuple)):
        part = parts[0] if parts else PickledByteArrayTypeInfo()
        return f"[{', '.join(java_text(each, part) for each in value)}]"
    if isinstance(value, Mapping):
        key, of = parts if len(parts) == 2 else (PickledByteArrayTypeInfo(),) * 2
        pairs = (f"{java_text(k, key)}={java_text(v, of)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, dt.datetime):
        return _timestamp_text(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _timestamp_text(value: dt.datetime) -> str:
    """Write it as `java.sql.Timestamp`: the fraction has a digit at least, and no zeros behind."""
    fraction = f"{value.microsecond:06}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _double_text(value: float) -> str:
    """Write it as `Double.toString`."""
    return _decimal_text(value, repr(value))


def _float_text(value: float) -> str:
    """Write it as `Float.toString`: the fewest digits that identify it among 32-bit floats."""
    if not math.isfinite(value):
        return _decimal_text(value, "")
    wanted = struct.pack("<f", value)
    # Nine digits identify every float of 32 bits.
    digits = next(n for n in range(1, 10) if _as_float(f"{value:.{n}g}") == wanted)
    return _decimal_text(value, repr(float(f"{value:.{digits}g}")))


def _as_float(text: str) -> bytes | None:
    """Return the 32 bits of a number; None where rounding has made it greater than the greatest."""
    try:
        return struct.pack("<f", float(text))
    except OverflowError:
        return None


def _decimal_text(value: float, shortest: str) -> str:
    """Write a number as Java does: from 10^-3 to 10^7 without an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    number = Decimal(shortest)
    if Decimal("1e-3") <= abs(number) < Decimal("1e7"):
        text = f"{number:f}"
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"
