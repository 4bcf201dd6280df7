# SPDX-License-Identifier: Apache-2.0
"""Operator state: there is broadcast state, as in PyFlink, and no list or union list state.

Flink's Java API has list states for what belongs to an operator's instance instead of a key, above
all the offsets of sources and the transactions of sinks.  On Spark, Spark itself stores both.
"""

from __future__ import annotations

from typing import Any, Final

from pyflinklike.errors import DeclarationTypeError

__all__ = ["OPERATOR_STATE_METHODS", "OPERATOR_STATE_REMEDY", "refuse_checkpointed_function"]

OPERATOR_STATE_METHODS: Final = frozenset(
    {"get_operator_state_store", "get_operator_list_state", "get_union_list_state"}
)
"""The methods that a port from Java asks for."""
OPERATOR_STATE_REMEDY: Final = (
    "of operator state there is broadcast state only, as in PyFlink: keep a list per key "
    "(get_list_state in open), or under one key for all elements, and what every instance must "
    "have in broadcast state; offsets of sources and transactions of sinks are Spark's"
)
_JAVA_NAMES: Final = (
    ("initialize_state", "snapshot_state"),
    ("initializeState", "snapshotState"),
)


def refuse_checkpointed_function(function: Any) -> None:
    """Refuse a port of Java's `CheckpointedFunction`: nothing would ever call its methods.

    Raises:
        DeclarationTypeError: The function is such a port.
    """
    for names in _JAVA_NAMES:
        if all(callable(getattr(function, name, None)) for name in names):
            msg = (
                f"nothing calls {' and '.join(names)}, got {type(function).__qualname__} with "
                f"them; {OPERATOR_STATE_REMEDY}"
            )
            raise DeclarationTypeError(msg)
