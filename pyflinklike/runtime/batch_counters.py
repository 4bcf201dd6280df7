# SPDX-License-Identifier: Apache-2.0
"""The counters of an operator whose keys are rows of a key index."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from pyflinklike.runtime.counters import OperatorMetrics

__all__ = ["ColumnMetrics"]

_MOST = 64
"""So many arrays of rows are kept apart before they are made one."""


@attrs.define
class ColumnMetrics(OperatorMetrics):
    """Counts a key once, however many of its records and timers come in however many calls."""

    _group: Any = attrs.field(default=None, init=False)
    _touched: list[Any] = attrs.field(factory=list, init=False)

    def touch_rows(self, group: Any, rows: Any) -> None:
        """Have keys counted.

        Args:
            group: The columns of their key group.
            rows: Of the keys, none twice.
        """
        if group is not self._group:
            self._end_group()
            self._group = group
        self._touched.append(rows)
        if len(self._touched) == _MOST:
            self._touched = [np.unique(np.concatenate(self._touched))]

    def take(self) -> list[int]:
        """The numbers; they are zero afterwards."""
        self._end_group()
        return super().take()

    def _end_group(self) -> None:
        touched, self._touched, self._group = self._touched, [], None
        if len(touched) == 1:
            self.keys += len(touched[0])
        elif touched:
            self.keys += len(np.unique(np.concatenate(touched)))
