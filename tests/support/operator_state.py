# SPDX-License-Identifier: Apache-2.0
"""One state operator in the world of the simulator, micro-batch by micro-batch, without its driver.

Each micro-batch is one attempt in a worker of its own, which finds nothing but files: as after a
restart.  One that fails has no version, and the next one begins where it began.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark import cloudpickle

pytest.importorskip("greenlet", reason="greenlet is not installed (the extra `tools`)")

from simulated.choices import Choices
from simulated.file_system import FileSystem
from simulated.state_store import Contents, StateStores
from simulated.tasks import (
    Attempt,
    Executor,
    Fate,
    Shuffled,
    StateTask,
    Times,
    Worker,
)

from pyflinklike.spark._plan.operator_plan import TimeMode

__all__ = ["OperatorState", "Payloads"]

Payloads = Mapping[int, Sequence[tuple[int, bytes]]]
"""Origin and payload of each row, by grouping key."""
_OTHER_POINTS = 3
"""An attempt begins, its store commits, the driver is told."""


class OperatorState:
    """The state of one operator in one partition."""

    def __init__(self) -> None:
        stores = FileSystem("local disk"), 1, Choices(0)
        self._stores = StateStores(*stores, may_be_damaged=False)
        self._version = 0
        self.calls = 0
        """Round trips to the state in the last micro-batch."""

    def serve(
        self,
        shipped: Any,
        mode: TimeMode,
        times: Times,
        rows: Payloads,
        initial: Mapping[int, Sequence[bytes]] | None = None,
        *,
        pandas: bool = False,
    ) -> list[tuple[int, bytes]]:
        """Run a micro-batch, and return the outputs with their payloads.

        Args:
            shipped: As `StateTask` has it, to be pickled.
            mode: The time mode of the operator.
            times: Of the micro-batch.
            rows: What Spark has shuffled to the partition.
            initial: Payloads of the initial state.
            pandas: Whether Spark hands rows over as Spark 4.0 does.
        """
        task = StateTask(
            operator=0,
            partition=0,
            stage_partition=0,
            batch=self._version,
            unique_id="",
            times=times,
            mode=mode,
            plan=cloudpickle.dumps(shipped),  # type: ignore[no-untyped-call]
            pandas=pandas,
            properties={"streaming.sql.batchId": str(self._version)},
            input=Shuffled(rows, initial or {}),
            finish=list,
        )
        with pytest.MonkeyPatch.context() as patch:
            folder = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir())
            patch.setenv("SPARK_LOCAL_DIRS", folder)
            executor = Executor(0, folder)
            attempt = Attempt(task, 0, executor, Worker(executor, 0), self._stores, Fate())
            attempt.run()
        if attempt.error is not None:
            raise attempt.error
        self._version += 1
        self.calls = attempt.points - _OTHER_POINTS
        outputs: list[tuple[int, bytes]] = attempt.result
        return outputs

    def lose_commit(self) -> None:
        """Have the last micro-batch done again: its files are there, and the commit log says nothing."""
        self._version -= 1

    @property
    def contents(self) -> Contents:
        """What the files hold: a copy."""
        return self._stores.contents(0, 0, self._version, "")

    @property
    def blobs(self) -> dict[int, dict[int, bytes]]:
        """Blobs by grouping key: a copy."""
        return _by_key(self.contents)

    @contextmanager
    def edit(self) -> Iterator[Contents]:
        """Yield what the files hold, to be changed in them."""
        with self._stores.edit(0, 0, self._version) as contents:
            yield contents

    @contextmanager
    def edit_blobs(self) -> Iterator[dict[int, dict[int, bytes]]]:
        """Yield the blobs of each grouping key, to be changed in the files."""
        with self.edit() as contents:
            yield _by_key(contents)


def _by_key(contents: Contents) -> dict[int, dict[int, bytes]]:
    # No two operators that share a store have a grouping key in common.
    return {key: blobs for (_, key), blobs in contents.blobs.items()}
