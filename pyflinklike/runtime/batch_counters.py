# SPDX-License-Identifier: Apache-2.0
"""The counters of an operator whose keys are rows of a key index."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from pyflinklike.runtime.counters import OperatorMetrics

__all__ = ["ColumnMetrics"]

_MOST = 64
"""The number of arrays of rows that are kept before they are merged into one."""


@attrs.define
class ColumnMetrics(OperatorMetrics):
    """Counts a key once for each key group, however many calls touch it."""

    _group: Any = attrs.field(default=None, init=False)
    _touched: list[Any] = attrs.field(factory=list, init=False)

    def touch_rows(self, group: Any, rows: Any) -> None:
        """Count keys, unless an earlier call of the same group did.

        Args:
            group: The columns of their key group.
            rows: The rows of the keys, none twice.
        """
        if group is not self._group:
            self._end_group()
            self._group = group
        self._touched.append(rows)
        if len(self._touched) == _MOST:
            self._touched = [np.unique(np.concatenate(self._touched))]

    def take(self) -> list[int]:
        """Return the numbers, and set them to zero."""
        self._end_group()
        return super().take()

    def _end_group(self) -> None:
        touched, self._touched, self._group = self._touched, [], None
        if len(touched) == 1:
            self.keys += len(touched[0])
        elif touched:
            self.keys += len(np.unique(np.concatenate(touched)))
