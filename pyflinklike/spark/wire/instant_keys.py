# SPDX-License-Identifier: Apache-2.0
"""Keys that hold instants: TIMESTAMP columns, by themselves, among others or within structs.

State is kept by the instant, whatever the session's time zone.  So keys are neither mixed up nor
lost in the hour that comes twice when clocks go back, or after a restart in another zone.  A
function sees such a key as a local time, as it sees the column.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.shown import shown
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.key_codec import decode_key
from pyflinklike.types.keys import AnyKeyTypeInfo
from pyflinklike.types.zones import local_time, to_instant

__all__ = ["InstantKeyTypeInfo", "holds_instants"]


def holds_instants(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type are instants, or structs with instants in them."""
    if pa.types.is_struct(kind):
        return any(holds_instants(kind.field(at).type) for at in range(kind.num_fields))
    return pa.types.is_timestamp(kind) and kind.tz is not None


@attrs.frozen(repr=False)
class InstantKeyTypeInfo(AnyKeyTypeInfo):
    """The type of keys that `AnyKeyTypeInfo` writes, with instants as datetimes in UTC.

    Args:
        kind: The type of the key column; a struct for several columns.
        time_zone: The zone of the Spark session.  It is not written to state.
    """

    kind: pa.DataType
    time_zone: str = attrs.field(eq=False)

    def freeze(self, value: Any) -> Any:
        """Encode a key in the user's form, or one that holds instants already."""
        return super().freeze(self._with_instants(value, self.kind))

    freeze_key = freeze

    def thaw(self, stored: Any) -> Any:
        """Return the key in the user's form."""
        return self._with_local_times(super().thaw(stored))

    def from_arrow(self, column: pa.Array) -> list[Any]:
        """Read the keys of a binary column.

        Raises:
            IncompatibleStateError: A key holds a local time, whose zone is unknown.
        """
        for key in map(decode_key, column.to_pylist()):
            if self._with_instants(key, self.kind) != key:
                msg = (
                    "state of a timestamp key is kept by the instant, got a key that holds a "
                    f"local time: {shown(key)}; it is of a version before, and cannot be used"
                )
                raise IncompatibleStateError(msg)
        return super().from_arrow(column)

    def frozen(self, columns: Sequence[pa.Array]) -> list[Any]:
        """Return the stored keys of records.

        Args:
            columns: The key columns of the records.
        """
        values = [_instants_of(column) for column in columns]
        keys: Sequence[Any] = values[0] if len(values) == 1 else list(zip(*values))
        return [super(InstantKeyTypeInfo, self).freeze(key) for key in keys]

    def _with_instants(self, value: Any, kind: pa.DataType) -> Any:
        if isinstance(value, tuple) and pa.types.is_struct(kind) and len(value) == kind.num_fields:
            return tuple(
                self._with_instants(part, kind.field(at).type) for at, part in enumerate(value)
            )
        if isinstance(value, dt.datetime) and holds_instants(kind):
            return to_instant(value, self.time_zone)
        return value

    def _with_local_times(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._with_local_times, value))
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            return local_time(value, self.time_zone)
        return value


def _instants_of(column: pa.Array) -> list[Any]:
    """Return the values of a column, instants as datetimes in UTC and structs as tuples."""
    kind = column.type
    if not holds_instants(kind):
        return to_python(column, "UTC")
    if pa.types.is_timestamp(kind):
        naive = to_python(column, "UTC")
        return [each and each.replace(tzinfo=dt.timezone.utc) for each in naive]
    parts = list(zip(*map(_instants_of, column.flatten())))
    valid = column.is_valid().to_pylist()
    return [part if is_valid else None for part, is_valid in zip(parts, valid)]
