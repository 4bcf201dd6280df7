# SPDX-License-Identifier: Apache-2.0
"""What PySpark 4.0 mended in `applyInPandasWithState`, for PySpark 3.5.

Spark sends an Arrow batch of rows with a column that says where the rows of each key group begin,
and how many they are.  A key group with two rows leaves a null in it, and with a null pandas has
floats for integers, by which PyArrow no longer slices since Cython 3 built it (PyArrow 15).
PySpark 4.0 reads them with `int()`; here it is done before PySpark 3.5 reads them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["read_whole_numbers"]

_OFFSETS = ("startOffset", "numRows")
_MENDED = "_pyflinklike_reads_whole_numbers"


def read_whole_numbers(serializer: Any = None) -> None:
    """Have the worker at hand read offsets as what they are; again, it does nothing.

    Args:
        serializer: The class that reads them, by default PySpark's own.
    """
    if serializer is None:
        from pyspark.sql.pandas import serializers

        serializer = serializers.ApplyInPandasWithStateSerializer  # type: ignore[attr-defined]
    if hasattr(serializer, _MENDED):
        return
    read = serializer.arrow_to_pandas

    def arrow_to_pandas(self: Any, column: Any) -> Any:
        values = read(self, column)
        return values.map(_with_whole_numbers) if _has_offsets(column.type) else values

    serializer.arrow_to_pandas = arrow_to_pandas
    setattr(serializer, _MENDED, True)


def _has_offsets(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(kind) and all(kind.get_field_index(name) >= 0 for name in _OFFSETS)


def _with_whole_numbers(state: dict[str, Any] | None) -> dict[str, Any] | None:
    # Where there is no state, PySpark stops.
    return state and {**state, **{name: int(state[name]) for name in _OFFSETS}}
