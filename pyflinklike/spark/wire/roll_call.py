# SPDX-License-Identifier: Apache-2.0
"""The roll call: a grouping key that is not a key group, and is called in every batch with data.

Spark finds state by grouping key.  The grouping keys of key groups depend on `max_parallelism`,
so none of them can show that it has changed.  The grouping key of the roll call is always the
same.  Its state is the operator's record and roll (`pyflinklike.log.operator_record`), and every
task that packs records tells it for which key groups they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from pyflinklike.spark.wire.places import roll_call_of

__all__ = ["ROLL_CALL", "groups_in", "roll_payload"]

ROLL_CALL = roll_call_of(0)
"""The grouping key, of an operator that shares its state operator with no other one or is the first of them."""
_INT = "i"


def roll_payload(groups: Iterable[int]) -> bytes:
    """The key groups that a task has records for, as the payload of a row."""
    return array(_INT, sorted(groups)).tobytes()


def groups_in(payloads: Iterable[bytes]) -> set[int]:
    """The key groups of all tasks."""
    groups: set[int] = set()
    for payload in payloads:
        groups.update(array(_INT, payload))
    return groups
