# SPDX-License-Identifier: Apache-2.0
"""Elements of jobs as rows of DataFrames."""

from __future__ import annotations

from typing import Any

from pyflinklike.common.types import Row, RowKind
from pyflinklike.errors import OutputError
from pyflinklike.shown import shown

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """An element as what makes a row of a DataFrame: its rows as mappings or tuples.

    Raises:
        OutputError: It is a change: a DataFrame has rows only.
    """
    if isinstance(value, Row):
        if value.get_row_kind() is not RowKind.INSERT:
            msg = (
                f"to_data_frame takes rows of kind +I, got {value.get_row_kind()} of {shown(value)}; "
                "map the row to one that says its kind in a column"
            )
            raise OutputError(msg)
        parts = [plain(each) for each in value]
        names = value.field_names()
        return tuple(parts) if names is None else dict(zip(names, parts))
    if type(value) is list:
        return [plain(each) for each in value]
    if type(value) is dict:
        return {key: plain(each) for key, each in value.items()}
    if type(value) is tuple:
        return tuple([plain(each) for each in value])
    return value
