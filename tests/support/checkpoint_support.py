# SPDX-License-Identifier: Apache-2.0
"""A program on a state operator of Spark 4 in the world of the simulator, and what is kept of it.

checkpoint = Checkpoint()
checkpoint.run(Program(Count(), max_parallelism=4), [("a", 1)], time=1)    # one micro-batch
checkpoint.run(Program(Count(), max_parallelism=8), [("a", 1)], time=2)    # after a restart
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from operator_state import OperatorState, Payloads
from program_support import Program, packed_records
from simulated.tasks import Times

from pyflinklike._changelog.log_storage import HEAD_AT, Head
from pyflinklike._changelog.operator_record import (
    RECORD_AT,
    REGISTRY_AT,
    KeyGroupRegistry,
    OperatorRecord,
)
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, group_ids
from pyflinklike.spark._wire.payloads import payload_to_batch

if not HAS_TRANSFORM_WITH_STATE:
    pytest.skip("PySpark 3.5 has no transformWithState", allow_module_level=True)

__all__ = ["Checkpoint", "Program", "Times", "rows_of"]


class Checkpoint(OperatorState):
    """The state of one program."""

    def run(self, program: Program, records: Iterable[tuple[str, int]], time: int) -> list[Any]:
        """A micro-batch with data; what the function gave."""
        return self.given(program, packed_records(program, list(records)), time)

    def begin(self, program: Program, rows: Mapping[int, list[bytes]], time: int) -> list[Any]:
        """A micro-batch with an initial state: payloads by grouping key."""
        return self.given(program, packed_records(program, []), time, rows)

    def expire(self, program: Program, time: int) -> list[Any]:
        """A micro-batch without data: timers alone."""
        return self.given(program, {}, time)

    def given(
        self,
        program: Program,
        rows: Payloads,
        time: int,
        initial: Mapping[int, list[bytes]] | None = None,
    ) -> list[Any]:
        """A micro-batch with these payloads; what the function gave."""
        outputs = self.serve(
            program.plan(), program.time_mode, Times(time), rows, initial, pandas=program.pandas
        )
        return rows_of(outputs)

    def record(self) -> OperatorRecord:
        """Of the operator."""
        return OperatorRecord.from_bytes(self.blobs[REGISTRY_KEY][RECORD_AT], "tested")

    def registry(self) -> KeyGroupRegistry:
        """Of its key groups."""
        return KeyGroupRegistry.from_bytes(self.blobs[REGISTRY_KEY][REGISTRY_AT], "tested")

    def heads(self, program: Program) -> dict[int, Head]:
        """By index of the key group."""
        ids = group_ids(program.max_parallelism)
        return {
            ids.index(key): Head.from_bytes(blobs[HEAD_AT], "tested")
            for key, blobs in self.blobs.items()
            if key > REGISTRY_KEY
        }


def rows_of(outputs: Iterable[tuple[int, bytes]]) -> list[Any]:
    """The rows of all outputs, sorted."""
    batches = [payload_to_batch(payload) for _, payload in outputs]
    return sorted(tuple(row.values()) for each in batches for row in each.to_pylist())
