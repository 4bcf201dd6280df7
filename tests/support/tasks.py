# SPDX-License-Identifier: Apache-2.0
"""A host without Spark: one key group, served batch by batch as the streaming host serves it.

task = Task(Function(), heap)
task.serve([("a", 1, None)], processing_time=5)     # key, element, timestamp
assert 1 == task.counts["records"]                  # of that batch
task.lose()                                         # another worker serves the next one
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._clock import TimeDomain
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import NO_RECORDS, Records, TimerScheduling, serve
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.types import Types

_GROUP = 0


def opened(
    function: KeyedProcessFunction,
    backend: StateBackend | None = None,
    task: TaskInfo | None = None,
    owner: str = "",
    key_type: Any = None,
    **declared: Any,
) -> KeyedProcessOperator:
    """An open operator, of a worker of its own and over the heap unless something else is said."""
    operator = make_keyed_operator(
        OperatorDeclaration(
            function,
            backend or HashMapStateBackend(),
            key_type or Types.STRING(),
            task or TaskInfo("tested", max_parallelism=8),
            owner or f"tested-{uuid.uuid4()}",
            **declared,
        )
    )
    operator.open()
    return operator


class Task:
    """Serves one key group.

    Args:
        function: Opened for every batch; assign another one as if the program was changed.
        backend: Keeps the working state between them.
        domain: In which the host can call the group without records.
    """

    def __init__(
        self,
        function: KeyedProcessFunction,
        backend: StateBackend,
        domain: TimeDomain = TimeDomain.PROCESSING_TIME,
    ) -> None:
        self.function = function
        self._backend = backend
        self._domain = domain
        self.store = InMemoryLogStorage()
        self.counts: dict[str, int] = {}
        self.user_counts: Sequence[tuple[str, str, int]] = []
        self.lose()

    def lose(self) -> None:
        """Go on without working state."""
        self._owner = f"task-{uuid.uuid4()}"

    def serve(
        self,
        records: Sequence[tuple[Any, Any, int | None]] = (),
        *,
        processing_time: int = 0,
        watermark: int | None = None,
    ) -> list[Any]:
        """One micro-batch; its main outputs."""
        operator = self._opened()
        operator.clock.processing_time = processing_time
        if watermark is not None:
            operator.clock.watermark = watermark
        batch = Records(*map(list, zip(*records))) if records else NO_RECORDS
        serve(operator, self.store, _GROUP, batch, waking=TimerScheduling(self._domain))
        outputs = operator.outputs.take()
        operator.metrics.outputs += len(outputs)
        numbers, self.user_counts = operator.take_metrics()
        self.counts = dict(zip(OperatorMetrics.names(), numbers))
        operator.group.cache()
        operator.close()
        return outputs.main

    def _opened(self) -> KeyedProcessOperator:
        return opened(self.function, self._backend, owner=self._owner)

    @property
    def sweep_at(self) -> int | None:
        """When the group wants to be called without records, in ms."""
        return None if self.store.head is None else self.store.head.sweep_at
