# SPDX-License-Identifier: Apache-2.0
"""The buffer of an interval join: the elements of one input that may still find a partner.

The elements lie in an ordered table under their time and a number, which tells elements of the
same time apart.  So the elements within an interval are found without a look at the others; Flink
walks through all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs

from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.map import MapState
from pyflinklike.state.table import MISSING, OrderedTable, Setting, Table, TableSpec
from pyflinklike.types import TypeInformation, Types

__all__ = ["BufferDescriptor", "Buffered", "JoinBuffer"]

_KEY = struct.Struct(">QI")
# Added to times, which may be negative: as bytes, unsigned numbers sort as they count.
_BIAS = 1 << 63
_LAST = (1 << 63) - 1
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


class Buffered(NamedTuple):
    """An element of a buffer.

    Args:
        place: The key of the element in the ordered table.
        timestamp: The time of the element in ms.
        joined: Whether the element has found a partner; only noted by outer joins.
        element: The element, which the caller may change.
    """

    place: bytes
    timestamp: int
    joined: bool
    element: Any


class JoinBuffer(MapState[bytes, Any]):
    """Elements of the current key by time; `BufferDescriptor` makes it."""

    __slots__ = ("_range",)

    def __init__(self, name: str, table: Any, value_type: TypeInformation) -> None:
        super().__init__(name, table, _BYTES, value_type)
        ordered: OrderedTable = table
        self._range = ordered.range

    def append(self, timestamp: int, joined: bool, element: Any) -> None:
        """Put an element behind the elements of the same time.

        Raises:
            StateValueError: The element does not fit the declared type.
        """
        # The elements of one time are removed together, so the number 0 is free only if all are.
        place = _KEY.pack(timestamp + _BIAS, 0)
        if self._get(place) is not MISSING:
            last, _ = next(iter(self._range(place, _end(timestamp), backwards=True, limit=1)))
            place = _KEY.pack(timestamp + _BIAS, _KEY.unpack(last)[1] + 1)
        self.put(place, (joined, element))

    def within(self, first: int, last: int) -> Iterator[Buffered]:
        """Yield the elements from one time to another, both included, by time and arrival."""
        thaw = self._thaw or _same
        begin = _KEY.pack(max(first + _BIAS, 0), 0)
        for place, stored in self._range(begin, _end(last)):
            joined, element = thaw(stored)
            yield Buffered(place, _KEY.unpack(place)[0] - _BIAS, joined, element)

    def mark_joined(self, buffered: Buffered) -> None:
        """Note that an element has found a partner."""
        self.put(buffered.place, (True, buffered.element))

    def earliest(self) -> int | None:
        """Return the least time of an element, or None if there is no element."""
        for place, _ in self._range(limit=1):
            time: int = _KEY.unpack(place)[0]
            return time - _BIAS
        return None


def _end(last: int) -> bytes | None:
    """Return the first place behind a time; None if no time is greater."""
    if last >= _LAST:
        return None
    return _KEY.pack(max(last + 1 + _BIAS, 0), 0)


def _same(stored: Any) -> Any:
    return stored


class BufferDescriptor(MapStateDescriptor[bytes, Any]):
    """Declares a `JoinBuffer`, obtained with `get_map_state`.

    Args:
        name: The name of the state.
        element_type: The type of the elements.
        join: The kind of the join, a setting that restricts a restart.
    """

    kind = "join buffer"

    def __init__(self, name: str, element_type: TypeInformation, join: Setting) -> None:
        super().__init__(name, _BYTES, Types.TUPLE([Types.BOOLEAN(), element_type]))
        self._join = join

    def spec(self) -> TableSpec:
        """Return what the backend and the log need to know."""
        own = super().spec()
        return attrs.evolve(own, ordered=True, settings=(*own.settings, self._join))

    def state(self, table: Table) -> JoinBuffer:
        """Make the state over a table that was made for `spec`."""
        return JoinBuffer(self.name, table, self._value_type_info)
