# SPDX-License-Identifier: Apache-2.0
"""A key group's durable form in Spark's own state store: one map of blobs.

Segments are under their sequence numbers, and the head is under -1.  A second state variable would
make a clearer layout, but would cost every task and every plan more than that is worth.  `BlobMap`
is this layout for each of Spark's interfaces; `SparkLogStorage` is the one of `transformWithState`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import TYPE_CHECKING

from pyspark.sql import types as st

from pyflinklike._changelog.log_storage import HEAD_AT, Head

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle

LOG_VARIABLE = "log"
"""Name of the state variable of an operator that shares its state operator with no other."""
# These are not DDL: the JVM would parse each text twice, in every task of every micro-batch.
LOG_TYPES = (
    st.StructType([st.StructField("sequence", st.LongType())]),
    st.StructType([st.StructField("blob", st.BinaryType())]),
)
"""The types of its keys and of its values."""


def log_variable(operator_index: int) -> str:
    """Name the state variable of the operator with this index in a state operator."""
    # Each operator has its own variable.  So Spark's metadata shows how many operators share a
    # state operator, and one is read without the others.
    return f"{LOG_VARIABLE}_{operator_index}" if operator_index else LOG_VARIABLE


class BlobMap(ABC):
    """The log of a key group as one map of blobs, a `LogStorage`."""

    def read_head(self, where: str) -> Head | None:
        """Read the head; None before the first commit."""
        blob = self.read_segment(HEAD_AT)
        return None if blob is None else Head.from_bytes(blob, where)

    def write_head(self, head: Head) -> None:
        """Replace the head."""
        self.write_segment(HEAD_AT, head.to_bytes())

    @abstractmethod
    def read_segment(self, sequence: int) -> bytes | None:
        """Read one segment; None if it is missing."""

    @abstractmethod
    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Add a segment."""

    @abstractmethod
    def clear_segments(self) -> None:
        """Remove every segment, and the head, which every commit writes last."""


class SparkLogStorage(BlobMap):
    """The log of Spark's current grouping key.

    Args:
        handle: Spark's handle, on which each operator index is declared at most once.
        operator_index: The index of the operator among the operators that share a state operator.
        plan_id: The id of the operator's plan.
    """

    grouping_key = 0
    """The grouping key of Spark's present call."""

    def __init__(
        self, handle: StatefulProcessorHandle, operator_index: int = 0, plan_id: str = ""
    ) -> None:
        self._log = handle.getMapState(log_variable(operator_index), *LOG_TYPES)
        self._found = _found_by(plan_id)

    def read_segment(self, sequence: int) -> bytes | None:
        """Read one segment; None if it is missing."""
        if sequence < 0 and not self._is_there(sequence):
            return None
        row = self._log.getValue((sequence,))
        return None if row is None else bytes(row[0])

    def _is_there(self, sequence: int) -> bool:
        """Return whether the map has a number below 0, which a new key group does not have.

        Spark logs a warning when the value of a missing key is read.  So a worker first asks
        whether the key is there, but only once: each question is a round trip to the JVM.
        """
        fact = self.grouping_key, sequence
        if fact not in self._found:
            if not self._log.containsKey((sequence,)):
                return False
            self._found.add(fact)
        return True

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Add a segment."""
        self._log.updateValue((sequence,), (blob,))
        if sequence < 0:
            self._found.add((self.grouping_key, sequence))

    def clear_segments(self) -> None:
        """Remove every segment, and the head, which every commit writes last."""
        self._log.clear()


_PLANS = 64
_FOUND: OrderedDict[str, set[tuple[int, int]]] = OrderedDict()
"""The numbers below 0 that this worker has found or written, by plan; each with its grouping key.

If a micro-batch failed, its number may be missing after all; that costs only Spark's warning.
"""


def _found_by(plan_id: str) -> set[tuple[int, int]]:
    # A worker lives longer than its queries, so plans that were not used for long are forgotten.
    found = _FOUND.setdefault(plan_id, set())
    _FOUND.move_to_end(plan_id)
    if len(_FOUND) > _PLANS:
        _FOUND.popitem(last=False)
    return found
