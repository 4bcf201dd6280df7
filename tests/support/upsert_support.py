# SPDX-License-Identifier: Apache-2.0
"""`UpsertFunction` in the harness, and its rows in short."""

from pyflinklike import Row, Types
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.upsert import UpsertFunction


def harness(*, key_type=None, restore=None, backend=None, **arguments):
    """A harness over elements with `key`, `value` and, if it is ordered, `order`."""
    arguments = {"value": "value", "value_type": Types.STRING(), **arguments}
    return KeyedProcessHarness(
        UpsertFunction(**arguments),
        key_selector=lambda e: e.key if hasattr(e, "key") else e["key"],
        key_type=key_type,
        restore=restore,
        state_backend=backend,
    )


def ordered(**arguments):
    """The same with order keys."""
    return harness(**{"order_key": "order", **arguments})


def element(value, order=None, key="k", **fields):
    """An element."""
    return Row(key=key, value=value, order=order, **fields)


def changes(rows):
    """Rows without key and error."""
    return [(row.op, row.value, row.diff) for row in rows]
