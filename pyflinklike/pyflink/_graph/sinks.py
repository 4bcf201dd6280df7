# SPDX-License-Identifier: Apache-2.0
"""The sinks of a job, as plain declarations, and the text of elements in them.

Each host writes sinks in its own way; `writer` is for elements that are in this process.

There are two kinds of text, since PyFlink has two.  `java_text` is the text of Java's `toString` for the Java
object that PyFlink makes from a typed element; so floats, times and bytes look as in Java.  `print_text` is
the text that `DataStream.print` writes: `str` of an untyped element, and rows as PyFlink itself writes them.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import attrs

from pyflinklike._deprecation import WithoutJava
from pyflinklike.errors import SparkSetupError
from pyflinklike.types import PickledByteArrayTypeInfo, TypeInformation
from pyflinklike.types.basic_types import FloatTypeInfo
from pyflinklike.types.row_types import RowTypeInfo, TupleTypeInfo


class DeliveryGuarantee(Enum):
    """The promise of a sink, as `pyflink.datastream.connectors.base.DeliveryGuarantee`."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class Renaming(NamedTuple):
    """The step that makes a written file visible; it may be repeated.

    Args:
        hidden: The path that the file was written to.
        path: The path that the file is to have.
    """

    hidden: Path
    path: Path

    def perform(self) -> None:
        """Rename the file, if that was not done before."""
        if self.hidden.exists():
            self.hidden.rename(self.path)

    def check(self) -> None:
        """Check that this process can rename the file.

        Raises:
            SparkSetupError: The driver cannot see a file that a task has written.
        """
        if not self.hidden.exists():
            msg = (
                "a FileSink writes to a file system that the driver and all workers have mounted, got "
                f"no {str(self.hidden)!r} on the driver, which a task has written; give such a path"
            )
            raise SparkSetupError(msg)


class SinkWriter(Protocol):
    """Writes the elements that come to one instance of a sink; a subclass needs `write` and `abandon`."""

    def write(self, value: Any, timestamp: int | None) -> None:
        """Write an element; `timestamp` is its event time in ms, or None."""

    def prepare(self) -> list[Renaming]:
        """Write no more, and return the steps that make the files visible, in any process."""
        return []

    def finish(self) -> None:
        """Make all that was written visible: the job has ended well."""
        for renaming in self.prepare():
            renaming.perform()

    def abandon(self) -> None:
        """Take back what is not visible yet: the job has failed."""


class Sink(WithoutJava):
    """A place that elements go to."""

    @property
    def is_written_by_tasks(self) -> bool:
        """True if workers write their own elements; otherwise only the program writes."""
        return False

    def check_settings(self, configuration: Mapping[str, str]) -> None:
        """Check that the sink can give what it promises in a job with these settings.

        Args:
            configuration: The settings of the job, by key.

        Raises:
            SparkSetupError: It cannot; the message names the setting to change.
        """

    def remove_unfinished(self, name: str) -> None:
        """Remove unfinished output of writers whose names begin with `name`.

        Args:
            name: The beginning of the writers' names.
        """

    def writer(
        self,
        index: int,
        parallelism: int,
        type_info: TypeInformation,
        name: str | None = None,  # noqa: ARG002
    ) -> SinkWriter:
        """Make the writer of the elements of one instance, in this process.

        Args:
            index: The number of the instance, from 0.
            parallelism: How many instances there are.
            type_info: The type of the elements.
            name: The name of the writer, for names of files; None for a random one.

        Raises:
            SparkSetupError: Only Spark can write this sink.
        """
        msg = (
            f"{type(self).__name__} is written by Spark only, got elements of {type_info!r} for "
            f"instance {index + 1} of {parallelism} of the local runner; set execution.target to spark"
        )
        raise SparkSetupError(msg)


class SinkMaker(WithoutJava, ABC):
    """A declaration of Flink 1 that becomes a sink when it is added to a stream."""

    @abstractmethod
    def sink(self) -> Sink:
        """Make the sink from what is declared so far."""


@attrs.frozen
class PrintSink(Sink):
    """Writes a line for each element to the standard output or error, as `DataStream.print`.

    The line is `identifier:n> text`; `n>` is there only if there are several instances, and the
    identifier only if the program gives one.

    Args:
        identifier: The text before the number of the instance; None leaves it out.
        is_error: True for the standard error.
    """

    identifier: str | None = None
    is_error: bool = False

    def prefix(self, index: int, parallelism: int) -> str:
        """Return the part of a line before the text of the element.

        Args:
            index: The number of the instance that prints, from 0.
            parallelism: How many instances there are.
        """
        subtask = str(index + 1) if parallelism > 1 else ""
        parts = [part for part in (self.identifier, subtask) if part]
        return f"{':'.join(parts)}> " if parts else ""

    def writer(
        self,
        index: int,
        parallelism: int,
        type_info: TypeInformation,
        name: str | None = None,  # noqa: ARG002  lines have no names
    ) -> SinkWriter:
        """Make the writer that prints the elements of one instance."""
        return _Printer(self.prefix(index, parallelism), type_info, self.is_error)


@attrs.frozen
class _Printer(SinkWriter):
    prefix: str
    type_info: TypeInformation
    is_error: bool

    @property
    def _stream(self) -> Any:
        # Looked up for each element: a program that captures output puts another one in its place.
        return sys.stderr if self.is_error else sys.stdout

    def write(self, value: Any, timestamp: int | None) -> None:  # noqa: ARG002
        self._stream.write(f"{self.prefix}{print_text(value, self.type_info)}\n")

    def prepare(self) -> list[Renaming]:
        self._stream.flush()
        return []

    def abandon(self) -> None:
        self._stream.flush()


@attrs.frozen
class CollectSink(Sink):
    """Gives elements to the program, as `execute_and_collect`, by `JobRun.collected`."""


# Elements as text


def print_text(value: Any, type_info: TypeInformation) -> str:
    """Return the text that `print` writes for an element of a type, without the prefix."""
    if isinstance(type_info, PickledByteArrayTypeInfo):
        return str(value)
    if isinstance(type_info, RowTypeInfo) and value is not None:
        return f"{_kind_of(value)}[{','.join(str(field) for field in value)}]"
    return java_text(value, type_info)


def java_text(value: Any, type_info: TypeInformation) -> str:
    """Return the text that Java writes for an element.

    Args:
        value: The element, or None for "null".
        type_info: The type of the element; if Java has no such type, the value decides.
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
    # First, since `str` would write a bool as Python does.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, (bytes, bytearray)):
        # A byte of Java has a sign.
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
    """Write it as `java.sql.Timestamp`: the fraction has at least one digit, and no zeros at its end."""
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
    """Return the 32 bits of a number; None if rounding has made it too great for them."""
    try:
        return struct.pack("<f", float(text))
    except OverflowError:
        return None


def _decimal_text(value: float, shortest: str) -> str:
    """Write a number as Java does: from 10^-3 to 10^7 without an exponent."""
    # https://docs.oracle.com/javase/8/docs/api/java/lang/Double.html#toString-double-
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
