# SPDX-License-Identifier: Apache-2.0
"""The values of entries without a value, such as timers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.columns.vectors import Vector

__all__ = ["NoVector"]


class NoVector(Vector):
    """A column that holds nothing: entries have no value."""

    kind = pa.null()

    def reserve(self, count: int) -> None:
        """Make no room, since there are no values."""

    def put(self, rows: Any, values: Any) -> None:
        """Store nothing, since there are no values."""

    def take(self, rows: Any) -> Any:  # noqa: ARG002
        """Return None: there is no column."""
        return None

    def to_arrow(self, rows: Any, present: Any = None) -> Any:  # noqa: ARG002
        """Return a column of nulls."""
        return pa.nulls(len(rows))

    def has_nulls(self, rows: Any) -> bool:  # noqa: ARG002
        """Return False: no value is missing."""
        return False

    def equal(self, rows: Any, values: Any) -> Any:  # noqa: ARG002
        """Return True for each row: no two entries differ in their value."""
        return np.ones(len(rows), bool)

    def keep(self, rows: Any) -> None:
        """Forget nothing, since there are no values."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory: none."""
        return 0
