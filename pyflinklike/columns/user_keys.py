# SPDX-License-Identifier: Apache-2.0
"""The types that user keys of a map may have as columns."""

from __future__ import annotations

from pyflinklike.columns.values import ValueColumn, value_column
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.types import TupleTypeInfo, TypeInformation, Types

__all__ = ["user_key_column"]


def user_key_column(name: str, type_info: TypeInformation) -> ValueColumn:
    """Choose the column of a map's user keys.

    Args:
        name: The name of the state, for messages.
        type_info: The declared type of the user keys.

    Raises:
        DeclarationTypeError: Keys of this type cannot be told apart as columns.
    """
    if type_info in (Types.FLOAT(), Types.DOUBLE()) or isinstance(type_info, TupleTypeInfo):
        msg = (
            f"state {name!r}: user keys of a column state are ints, bools, strings, bytes, dates or "
            f"timestamps, got {type_info!r}; use one of them, or a KeyedProcessFunction"
        )
        raise DeclarationTypeError(msg)
    return value_column(name, type_info)
