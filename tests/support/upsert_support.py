# SPDX-License-Identifier: Apache-2.0
"""`UpsertFunction` in the harness, and its rows in short."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyflinklike import Row, StateBackend, Types
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.upsert import UpsertFunction


def harness(
    *,
    key_type: Any = None,
    restore: bytes | None = None,
    backend: StateBackend | None = None,
    **arguments: Any,
) -> KeyedProcessHarness:
    """A harness over elements with `key`, `value` and, if it is ordered, `order`."""
    arguments = {"value": "value", "value_type": Types.STRING(), **arguments}
    return KeyedProcessHarness(
        UpsertFunction(**arguments),
        key_selector=lambda e: e.key if hasattr(e, "key") else e["key"],
        key_type=key_type,
        restore=restore,
        state_backend=backend,
    )


def ordered(**arguments: Any) -> KeyedProcessHarness:
    """The same with order keys."""
    return harness(**{"order_key": "order", **arguments})


def element(value: Any, order: Any = None, key: Any = "k", **fields: Any) -> Row:
    """An element."""
    return Row(key=key, value=value, order=order, **fields)


def changes(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows without key and error."""
    return [(row.op, row.value, row.diff) for row in rows]
