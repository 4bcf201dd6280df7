# SPDX-License-Identifier: Apache-2.0
"""Checks of two inputs that one operator shall process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError

__all__ = ["check_both_stream", "check_keys_alike", "event_times_of", "phases_of"]


def check_both_stream(first: DataFrame, second: DataFrame) -> None:
    """See that two inputs are both streams or both batches.

    Raises:
        DeclarationValueError: One is a stream and the other is not.
    """
    if first.isStreaming is not second.isStreaming:
        kinds = ["a stream" if each.isStreaming else "a batch" for each in (first, second)]
        msg = (
            f"connected inputs are both streams or both batches, got {kinds[0]} and {kinds[1]}; "
            "read the batch as a stream, for example with spark.readStream and its schema"
        )
        raise DeclarationValueError(msg)


def check_keys_alike(first: Sequence[st.StructField], second: Sequence[st.StructField]) -> None:
    """See that the keys of two inputs are of the same types.

    The hash that finds a key's key group depends on the types of its columns: an int and a long
    of one value are two keys.

    Args:
        first: The key columns of the first input.
        second: Those of the second one.

    Raises:
        DeclarationTypeError: They differ.
    """
    if [each.dataType for each in first] == [each.dataType for each in second]:
        return
    types = [
        ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in fields)
        for fields in (first, second)
    ]
    msg = (
        f"the keys of connected inputs must have the same types, got ({types[0]}) and "
        f"({types[1]}); cast the columns of one of them"
    )
    raise DeclarationTypeError(msg)


def event_times_of(event_time: Any) -> tuple[str | None, str | None]:
    """The event-time column of each input.

    Args:
        event_time: A name for both, a pair of names, or None for none.

    Raises:
        DeclarationTypeError: It is something else.
    """
    if event_time is None:
        return None, None
    if isinstance(event_time, str):
        return event_time, event_time
    pair = event_time if isinstance(event_time, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(each, str) for each in pair):
        msg = (
            f"event_time takes the name of a column of both inputs or a pair of names, got "
            f"{event_time!r}; both inputs need one, for the watermark is the smaller one of both"
        )
        raise DeclarationTypeError(msg)
    return pair[0], pair[1]


def phases_of(before_watermark: Any) -> tuple[str | None, str | None]:
    """The column of each input that says what came before the watermark.

    Args:
        before_watermark: A name for both, a pair of names of which one may be None, or None.

    Raises:
        DeclarationTypeError: It is something else.
    """
    if before_watermark is None or isinstance(before_watermark, str):
        return before_watermark, before_watermark
    pair = before_watermark if isinstance(before_watermark, (tuple, list)) else ()
    if len(pair) != 2 or not all(each is None or isinstance(each, str) for each in pair):
        msg = (
            "before_watermark takes the name of a column of both inputs or a pair of names, got "
            f"{before_watermark!r}; give None for an input that is behind no operator"
        )
        raise DeclarationTypeError(msg)
    return pair[0], pair[1]
