# SPDX-License-Identifier: Apache-2.0
"""The log itself as rows: one for each segment, without a look at its entries."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa

from pyflinklike.log.declaration import Declaration
from pyflinklike.log.savepoint import sections_of
from pyflinklike.log.segments import Segment
from pyflinklike.log.stored_entries import rows_in

__all__ = ["SEGMENTS", "SegmentsReader"]

SEGMENTS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("place", pa.int32()),
        pa.field("nonce", pa.string()),
        pa.field("parent", pa.string()),
        pa.field("is_snapshot", pa.bool_()),
        pa.field("bytes", pa.int64()),
        pa.field("entries", pa.map_(pa.string(), pa.int64())),
        pa.field("entry_bytes", pa.map_(pa.string(), pa.int64())),
    ]
)


class SegmentsReader:
    """Read what segments say of themselves."""

    schema = SEGMENTS

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Return the segments of one key group that count, oldest first."""
        declared: dict[int, Declaration] = {}
        rows = []
        for at, segment in enumerate(log):
            declared |= segment.declarations
            rows.append(_row(index, at, attrs.evolve(segment, declarations=declared), where))
        yield pa.Table.from_pylist(rows, SEGMENTS)


def _row(index: int, at: int, segment: Segment, where: str) -> dict[str, object]:
    """Return what a segment says of itself.

    Args:
        index: Index of the key group.
        at: Place of the segment in the log.
        segment: The segment, with the declarations of all segments up to it.
        where: Name of the key group, for messages.
    """
    entries: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for section in sections_of([segment], where):
        name = section.declaration.name
        entries[name] = entries.get(name, 0) + rows_in(section, where)
        sizes[name] = sizes.get(name, 0) + len(section.payload)
    return {
        "key_group": index,
        "place": at,
        "nonce": segment.nonce.hex(),
        "parent": segment.parent.hex() or None,
        "is_snapshot": not segment.parent,
        "bytes": sum(sizes.values()),
        "entries": list(entries.items()),
        "entry_bytes": list(sizes.items()),
    }
