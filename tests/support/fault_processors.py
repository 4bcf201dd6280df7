# SPDX-License-Identifier: Apache-2.0
"""Spark's side of an operator with something added: what tests of faults run in its place.

The classes go to the workers by value and change nothing there beyond their own query.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from spark_support import pickle_by_value

from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE

if not HAS_TRANSFORM_WITH_STATE:
    pytest.skip("PySpark 3.5 has no transformWithState", allow_module_level=True)

from pyflinklike.spark._host import streaming_host

pickle_by_value(__name__)


if TYPE_CHECKING:  # so that a name of the task that is no more is an error to mypy
    _Task = streaming_host.KeyGroupProcessor
else:
    _Task = object


class Counting(_Task):
    """Tells the function how far its task is; mixed into a processor."""

    done = 0

    def _serve(self, *arguments: Any, **times: Any) -> Any:
        function: Any = self._ensure_operator().function
        function.groups_done, function.met = self.done, 0
        result = super()._serve(*arguments, **times)
        self.done += 1
        return result


class DamagedWrites:
    """The store of a key group, on a disk that damages every segment that is written.

    Args:
        store: The real one.
        how: "flipped": one bit in the middle; "truncated": the last third is missing.
    """

    def __init__(self, store: Any, how: str) -> None:
        self._store = store
        self._how = how

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write_segment(self, sequence: int, blob: bytes) -> None:
        if sequence < 0:  # the record and the registry, which have tests of their own
            self._store.write_segment(sequence, blob)
            return
        middle = len(blob) // 2
        if self._how == "flipped":
            blob = blob[:middle] + bytes([blob[middle] ^ 1]) + blob[middle + 1 :]
        else:
            blob = blob[: len(blob) * 2 // 3]
        self._store.write_segment(sequence, blob)


def damaging(how: str) -> type:
    """What makes Spark's state store hold damaged segments."""

    class Damaging(Counting):
        def init(self, handle: Any, place: int = 0) -> None:
            super().init(handle, place)
            self._store: Any = DamagedWrites(self._store, how)

    return Damaging


@contextlib.contextmanager
def hosted_by(addition: type) -> Iterator[None]:
    """Let streams that are made meanwhile run in processors with this added."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("KeyGroupProcessor", "PandasKeyGroupProcessor"):
            base = getattr(streaming_host, name)
            patch.setattr(streaming_host, name, type(name, (addition, base), {}))
        yield
