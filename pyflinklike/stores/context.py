# SPDX-License-Identifier: Apache-2.0
"""What a store is given by the operator it runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs

from pyflinklike.clock import Clock
from pyflinklike.state.table import OrderedTable, Table, Tables, TableSpec
from pyflinklike.stores.cursor import OpenCursors
from pyflinklike.types import TypeInformation

__all__ = ["StoreContext"]


@attrs.frozen(kw_only=True)
class StoreContext:
    """The surroundings of the stores of one operator.

    Args:
        backend: Keeps their tables.
        clock: Tells the watermark; a store never asks for the processing time.
        key_type: Thaws the current key.
        application: Name of the operator, the first part of changelog names.
        on_table: Called for each new table, to fill it with what was restored.
        emit: Sends a value to a side output; the last argument is the key it belongs to.
        wants: Whether anybody reads the side output of a tag id.
        timestamp: The time of the current element or timer in ms, or None.
        position: The first segment that the working state lacks, by key group.
        cursors: Those that are open.
    """

    backend: Tables
    clock: Clock
    key_type: TypeInformation
    application: str
    on_table: Callable[[TableSpec], None]
    emit: Callable[[Any, Any, Any], None]
    wants: Callable[[str], bool]
    timestamp: Callable[[], int | None]
    position: Callable[[], dict[int, int]]
    cursors: OpenCursors = attrs.field(factory=OpenCursors)

    @property
    def key(self) -> Any:
        """The current key, frozen."""
        return self.backend.current.key

    def table(self, spec: TableSpec) -> Table:
        """The table of a spec, with what was restored of it."""
        table = self.backend.table(spec)
        self.on_table(spec)
        return table

    def ordered_table(self, spec: TableSpec) -> OrderedTable:
        """The same for a spec that is ordered."""
        return cast(OrderedTable, self.table(spec))

    def under(self, key: Any) -> _Under:
        """Makes a key current for the length of a `with` block."""
        return _Under(self, key)


class _Under:
    def __init__(self, context: StoreContext, key: Any) -> None:
        self._current = context.backend.current
        self._key = key

    def __enter__(self) -> None:
        self._former = self._current.key
        self._current.key = self._key

    def __exit__(self, *_: object) -> None:
        self._current.key = self._former
