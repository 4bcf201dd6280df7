# SPDX-License-Identifier: Apache-2.0
"""What an interval join keeps, in damaged state with right checksums: refused, and never misread."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from crafted_segments import with_column
from test_interval_join import joining

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike.errors import CorruptStateError


def crafted(stored: bytes, name: str, change: Callable[[pa.Array], pa.Array]) -> bytes:
    """The snapshot with another column of what is kept of the left input."""
    snapshot = read_segment(stored, "snapshot")
    sections = []
    for table_id, payload in snapshot.sections:
        declaration = snapshot.declarations[table_id]
        if declaration.name == "_join_left":
            payload = with_column(declaration, payload, name, change)
        sections.append((table_id, payload))
    return Segment(snapshot.nonce, snapshot.parent, snapshot.declarations, sections).to_bytes()


def without_flags(column: pa.Array) -> pa.Array:
    """Nobody says whether an element has joined."""
    flags = pa.nulls(len(column), pa.bool_())
    return pa.StructArray.from_arrays([flags, column.field(1)], fields=list(column.type))


def shortened(column: pa.Array) -> pa.Array:
    """Places that lack their number."""
    return pa.array([each[:8] for each in column.to_pylist()], column.type)


@pytest.mark.parametrize(
    "backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend], ids=["heap", "rocksdb"]
)
@pytest.mark.parametrize("step", ["process_element2", "process_watermark2"])
@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("value", without_flags, "must say whether it has joined, got null"),
        ("user_key", shortened, "key must have 12 bytes, got 8"),
    ],
    ids=["flags", "places"],
)
def test_what_is_damaged_is_refused(backend, step, name, change, told):
    """An element whose flag is gone would be given alone, though it has joined."""
    with joining(-2, 2, "left_outer") as driver:
        driver.process_element1(("a", 1), timestamp=10)
        driver.process_element2(("a", 2), timestamp=11)
        stored = driver.snapshot()
    damaged = crafted(stored, name, change)
    assert damaged != stored

    arguments = (("a", 3), 11) if step == "process_element2" else (20,)
    driver = joining(-2, 2, "left_outer", restore=damaged, backend=backend)
    driver.process_watermark1(20)
    with pytest.raises(
        CorruptStateError, match=f"kept elements of the left input .*{told}; the bytes"
    ):
        getattr(driver, step)(*arguments)
    driver.close()
