# SPDX-License-Identifier: Apache-2.0
"""Windows in damaged state: a start or an end that is null is damage, and no error of the user's function."""

from __future__ import annotations

import pyarrow as pa
import pytest
from window_support import elements, harness, processed

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike._changelog.entry_codec import schema_of
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike._changelog.stored_table import StoredTable
from pyflinklike.errors import CorruptStateError
from pyflinklike.windows import EventTimeSessionWindows, TumblingEventTimeWindows

SESSIONS = EventTimeSessionWindows.with_gap(5)


def without(stored: bytes, state: str, name: str, part: int) -> bytes:
    """The snapshot with null in place of the start or the end of each window of a column."""
    snapshot = read_segment(stored, "snapshot")
    sections = []
    for table_id, payload in snapshot.sections:
        declaration = snapshot.declarations[table_id]
        if declaration.name == state:
            table = StoredTable(declaration)
            schema = schema_of(table.spec, table.key_type, payload[0])
            message = pa.ipc.read_message(pa.py_buffer(payload)[8:])
            batch = pa.ipc.read_record_batch(message, schema)
            column = batch.column(schema.names.index(name))
            parts = [column.field(0), column.field(1)]
            parts[part] = pa.nulls(len(column), pa.int64())
            changed = pa.StructArray.from_arrays(parts, fields=list(column.type))
            number = schema.names.index(name)
            batch = batch.set_column(number, schema.field(number), changed)
            payload = payload[:8] + batch.serialize().to_pybytes()
        sections.append((table_id, payload))
    return Segment(snapshot.nonce, snapshot.parent, snapshot.declarations, sections).to_bytes()


@pytest.mark.parametrize(
    "backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend], ids=["heap", "rocksdb"]
)
@pytest.mark.parametrize("part", [0, 1], ids=["start", "end"])
@pytest.mark.parametrize(
    ("assigner", "state", "column"),
    [
        (SESSIONS, "merging-window-set", "value"),
        (SESSIONS, "merging-window-set", "user_key"),
        (SESSIONS, "window-contents", "namespace"),
        (TumblingEventTimeWindows.of(10), "window-contents", "namespace"),
        (TumblingEventTimeWindows.of(10), "__pyflinklike.event_time_timers", "namespace"),
    ],
    ids=str,
)
def test_a_window_without_a_bound_is_damage(backend, assigner, state, column, part):
    """It is refused when it is read, by the name of the state."""
    with harness(processed(assigner)) as driver:
        driver.process_elements(elements(1, 2))
        stored = driver.snapshot()
    damaged = without(stored, state, column, part)
    assert damaged != stored
    with pytest.raises(CorruptStateError, match="a window without a start or an end"):
        harness(processed(assigner), restore=damaged, state_backend=backend())
