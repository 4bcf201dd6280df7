# SPDX-License-Identifier: Apache-2.0
"""The log of a harness or an operator read as columns, without Spark."""

from typing import Any

from pyflinklike._changelog.operator_record import OperatorIdentity, OperatorRecord
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike.state_processor._logs.checkpoint_logs import read_log
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.group_reader import GroupStateReader, TimersReader
from pyflinklike.state_processor._logs.state_infos import describe_states, state_of
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.types import TypeInformation, Types

NEVER = BatchClock(0)


def record_of(
    operator: Any,
    key_type: TypeInformation,
    key_columns: tuple[tuple[str, str], ...] = (("k", "string"),),
) -> OperatorRecord:
    """What a checkpoint would say of an operator that is open."""
    return OperatorRecord(
        OperatorIdentity("tested", 8, key_columns, key_type.signature),
        "tests.Function",
        "0",
        "UTC",
        None,
        "None",
        operator.describe_states(),
    )


def log_of(store: Any) -> list[Segment]:
    """The log of an `InMemoryLogStorage`."""
    return [] if store.head is None else read_log(store.head, store.segments, "tested")


def rows_of(
    record: OperatorRecord,
    name: str,
    log: list[Segment],
    clock: BatchClock = NEVER,
    *,
    expired: bool = True,
    saved: bool = False,
) -> list[dict[str, Any]]:
    """The rows of a state in key group 3."""
    info = state_of(describe_states(record, 0), name, "tested")
    reader = GroupStateReader(StateRows.of(record, info, saved=saved), clock, expired)
    return [row for table in reader.read(3, log, "tested") for row in table.to_pylist()]


def timers_of(record: OperatorRecord, log: list[Segment], clock: BatchClock = NEVER) -> Any:
    """The rows of its timers."""
    tables = TimersReader(record, clock).read(3, log, "tested")
    return [row for table in tables for row in table.to_pylist()]


def rows_in_harness(harness: Any, name: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a state of an open harness whose keys are texts."""
    log = [read_segment(harness.snapshot(), "tested")]
    return rows_of(record_of(harness._operator, Types.STRING()), name, log, **options)
