# SPDX-License-Identifier: Apache-2.0
"""What the state of a stream begins with."""

from __future__ import annotations

from pyspark.sql import DataFrame

__all__ = ["Initial"]

Initial = list[tuple[int, bytes]] | DataFrame | None
"""Grouping keys with roll call or segment, as rows or as a DataFrame; None is no state."""
