# SPDX-License-Identifier: Apache-2.0
"""The job that reads key groups, over blobs as Spark hands them out."""

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

import pyarrow as pa
from checkpoint_support import Checkpoint, Program

from pyflinklike import KeyedProcessFunction, MapStateDescriptor, Types
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.state_processor._checkpoints import group_job
from pyflinklike.state_processor._logs.group_reader import GroupStateReader
from pyflinklike.state_processor._logs.state_infos import describe_states
from pyflinklike.state_processor._logs.state_rows import StateRows

GROUPS = 4


class Numbers(KeyedProcessFunction):
    """Keeps every number of a key."""

    def open(self, runtime_context):
        numbers = MapStateDescriptor("numbers", Types.LONG(), Types.LONG())
        self.numbers = runtime_context.get_map_state(numbers)

    def process_element(self, value, ctx):
        self.numbers.put(value.n, value.n)
        return []


@pytest.mark.parametrize("rows_of_batch", [1, 2, 1000])
@pytest.mark.parametrize("longest", [1, 3, 65_536])
def test_each_blob_has_a_list_and_all_lists_have_all_rows(rows_of_batch, longest, monkeypatch):
    """Wherever Spark cuts its batches: it puts the lists beside the blobs by their order."""
    monkeypatch.setattr(group_job, "_BATCH_ROWS", longest)
    checkpoint, program = Checkpoint(), Program(Numbers(), max_parallelism=GROUPS)
    for batch in range(3):
        records = [(str(key), 10 * batch + at) for key in range(9) for at in range(3)]
        checkpoint.run(program, records, time=100 + batch)
    record = checkpoint.record()
    (info,) = describe_states(record, 0)
    job = group_job._LogReader(
        GroupStateReader(StateRows.of(record, info), None),
        record.identity,
        checkpoint.registry().served_at,
        "tested",
    )
    blobs = [
        (group_id, sequence, blob)
        for group_id in group_ids(GROUPS)
        for sequence, blob in sorted(checkpoint.blobs[group_id].items())
    ]
    parts = [blobs[at : at + rows_of_batch] for at in range(0, len(blobs), rows_of_batch)]
    given = list(job.lists_of_rows(tuple(map(pa.array, zip(*part))) for part in parts))
    found = [row for each in given for rows in each.to_pylist() for row in rows]
    expected = {
        (str(key), 10 * batch + at) for key in range(9) for batch in range(3) for at in range(3)
    }
    assert len(blobs) == sum(map(len, given))
    assert sorted(expected) == sorted((row["key"], row["value"]) for row in found)
    assert {"key", "user_key", "value", "key_group"} == set(found[0])
