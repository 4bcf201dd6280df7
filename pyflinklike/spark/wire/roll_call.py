# SPDX-License-Identifier: Apache-2.0
"""The roll call: a grouping key that is no key group and is called in every micro-batch with data.

Spark finds state by grouping key.  The grouping keys of key groups depend on `max_parallelism`,
so none of them can show that `max_parallelism` has changed.  The grouping key of the roll call
depends on no setting.  Its state is the operator's record and roll.  Every task that packs
records tells the roll call for which key groups they are, so the roll needs no shuffle of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from pyflinklike.spark.wire.places import roll_call_of

__all__ = ["ROLL_CALL", "groups_in", "roll_payload"]

ROLL_CALL = roll_call_of(0)
"""The grouping key of the roll call of the operator at place 0."""
_INT = "i"


def roll_payload(groups: Iterable[int]) -> bytes:
    """Write the key groups for which a task has records as a payload."""
    return array(_INT, sorted(groups)).tobytes()


def groups_in(payloads: Iterable[bytes]) -> set[int]:
    """Read the key groups from the payloads of all tasks."""
    groups: set[int] = set()
    for payload in payloads:
        groups.update(array(_INT, payload))
    return groups
