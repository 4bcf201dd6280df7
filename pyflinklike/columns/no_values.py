# SPDX-License-Identifier: Apache-2.0
"""`NoVector`: the values of entries that have none, such as timers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.columns.vectors import Vector

__all__ = ["NoVector"]


class NoVector(Vector):
    """Nothing, for each row."""

    kind = pa.null()

    def reserve(self, count: int) -> None:
        """Nothing."""

    def put(self, rows: Any, values: Any) -> None:
        """Nothing."""

    def take(self, rows: Any) -> Any:  # noqa: ARG002
        """Nothing: there is no column."""
        return None

    def to_arrow(self, rows: Any, present: Any = None) -> Any:  # noqa: ARG002
        """A column of nulls."""
        return pa.nulls(len(rows))

    def has_nulls(self, rows: Any) -> bool:  # noqa: ARG002
        """No: no value is missing."""
        return False

    def equal(self, rows: Any, values: Any) -> Any:  # noqa: ARG002
        """All are."""
        return np.ones(len(rows), bool)

    def keep(self, rows: Any) -> None:
        """Nothing."""

    @property
    def nbytes(self) -> int:
        """None."""
        return 0
