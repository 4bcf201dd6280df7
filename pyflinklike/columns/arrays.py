# SPDX-License-Identifier: Apache-2.0
"""Checks arrays from users, and turns them into NumPy arrays without nulls or Python objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pyflinklike.errors import StateValueError

__all__ = ["check_codes", "numbers_of", "plain_array"]

_NUMBERS = frozenset("biuf")


def plain_array(values: Any, what: str) -> Any:
    """Return values as a NumPy array of at most one dimension.

    Args:
        values: An array of NumPy, Arrow, pandas or Polars, a list, or a single value.
        what: The subject of messages, such as "column 'price'".

    Raises:
        StateValueError: A value is null, masked, or of a type that NumPy does not have.
    """
    # Arrow's to_numpy silently turns nulls among ints into NaN, so we refuse them before that.
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        if values.null_count:
            msg = (
                f"{what} takes values without nulls, got {values.null_count} nulls in a column of "
                f"{values.type}; use pyarrow.compute.fill_null, or leave such records out"
            )
            raise StateValueError(msg)
        values = values.to_numpy(zero_copy_only=False)
    if isinstance(values, np.ma.MaskedArray):
        msg = f"{what} takes values without nulls, got a masked array; use its filled()"
        raise StateValueError(msg)
    found = np.asarray(values)
    if found.ndim > 1 or found.dtype.kind == "O":
        msg = (
            f"{what} takes values of one type in one dimension, got {found.dtype} of shape "
            f"{found.shape}; give it a NumPy or an Arrow array"
        )
        raise StateValueError(msg)
    return found


def numbers_of(values: Any, what: str) -> Any:
    """Return numbers or bools as a NumPy array.

    Raises:
        StateValueError: The values are of another type, or one is null.
    """
    found = plain_array(values, what)
    if found.dtype.kind not in _NUMBERS:
        msg = f"{what} takes numbers, got {found.dtype}; convert them first"
        raise StateValueError(msg)
    return found


def check_codes(codes: Any, count: int, what: str) -> Any:
    """Return the numbers of groups as a NumPy array of int64.

    Args:
        codes: The number of the group of each value.
        count: How many groups the batch has.
        what: The subject of messages.

    Raises:
        StateValueError: A code is not a whole number from 0 to `count - 1`.
    """
    found = plain_array(codes, f"{what}: codes")
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        msg = f"{what}: codes are the numbers of groups, got {found.dtype}; use batch.groups.codes"
        raise StateValueError(msg)
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < count:
        msg = (
            f"{what}: codes are numbers of the batch's {count} groups, from 0, got "
            f"{int(found.min())} to {int(found.max())}; use batch.groups.codes"
        )
        raise StateValueError(msg)
    return found.astype(np.int64)
