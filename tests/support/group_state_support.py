# SPDX-License-Identifier: Apache-2.0
"""A program on the state operator of PySpark 3.5 in the world of the simulator.

query = GroupStates(Program(Remind(), time_mode=TimeMode.EVENT_TIME))
query.run([("a", 100)], now=1, watermark=0)     # a micro-batch: with data first, then timeouts
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operator_state import OperatorState, Payloads
from program_support import Program, packed_records
from simulated.group_state import GroupStatePlan
from simulated.tasks import Times

from pyflinklike.spark._wire.payloads import payload_to_batch


class GroupStates(OperatorState):
    """The state of one program.

    Args:
        program: What `process` is told; assign another one as at a restart.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def run(
        self,
        records: Iterable[tuple[str, int]] = (),
        *,
        now: int,
        watermark: int = 0,
        more: Payloads | None = None,
        begins: bool = False,
    ) -> list[Any]:
        """A micro-batch; what the function gave.

        Args:
            records: Each packed by itself.
            now: In ms.
            watermark: In ms.
            more: Payloads beside theirs: other records, or a savepoint.
            begins: Whether the query begins with a savepoint.
        """
        rows = {key: list(mine) for key, mine in (more or {}).items()}
        for at, record in enumerate(records):
            for key, packed in packed_records(self.program, [record]).items():
                rows.setdefault(key, []).extend((at, payload) for _, payload in packed)
        # The last row first: Spark promises no order.
        turned = {key: mine[::-1] for key, mine in rows.items()}
        function = GroupStatePlan(self.program.plan(), begins=begins)
        times = Times(now, watermark)
        outputs = self.serve(function, self.program.time_mode, times, turned)
        batches = [payload_to_batch(payload).to_pylist() for _, payload in outputs]
        return sorted(tuple(row.values()) for some in batches for row in some)

    @property
    def timeouts(self) -> dict[int, int]:
        """When Spark is to call, by grouping key."""
        return {key: time for time, key in self.contents.timers}
