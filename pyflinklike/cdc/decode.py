# SPDX-License-Identifier: Apache-2.0
"""The records of a change stream as events that an upsert applies.

Debezium's operations, and their events:

    c u r   the row is now `after`
    d       the row is gone, `after` is None
    t       the table was emptied: handled as `truncate` says
    m       a message in PostgreSQL's log: nothing to apply
    (null)  a tombstone, by which Kafka's compaction drops the key: another delete

`pyflinklike.spark.decode_debezium` takes the records of a DataFrame through the same decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyflinklike.cdc.decoder import DebeziumDecoder
from pyflinklike.cdc.event import CdcEvent
from pyflinklike.cdc.unavailable import DEFAULT_PLACEHOLDER
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import shown

__all__ = ["decode_debezium"]


def decode_debezium(
    record: Mapping[str, Any],
    *,
    key: str | Sequence[str] | None = None,
    order: str | Callable[[Mapping[str, Any]], Any] = "source",
    truncate: str = "error",
    unavailable: str = "keep",
    on_error: str = "raise",
    placeholder: str = DEFAULT_PLACEHOLDER,
) -> CdcEvent | None:
    """Decode a record of a Debezium topic.

    Args:
        record: A mapping with `key` and `value` (JSON text or bytes, None where there is none), and
            with `partition` and `offset`, which only `order="offset"` needs.
        key: The key's column, or columns.  None takes those of the record's own key.
        order: The order of the events of a key: by the position in the database's log ("source"),
            by Kafka's partition and offset ("offset"), or by a function of the record with its
            `key` and `value` parsed and the fields of the envelope beside them.
        truncate: The meaning of a truncation: an "error", nothing ("ignore"), or an event with the
            op `t` and no key ("apply"), which the caller takes out before keying by it.
        unavailable: The treatment of a column whose value neither `after` nor `before` has: it is
            named in the event's `unavailable` ("keep"), it is None ("null"), or it is an "error".
        on_error: "raise", "inline" (an event whose `error` says why) or "drop".
        placeholder: The connector's `unavailable.value.placeholder`.

    Returns:
        The event, or None where there is nothing to apply.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
        KeyDecodeError, NullKeyError, ValueDecodeError: The record cannot be decoded, with
            `on_error="raise"`.
    """
    decoder = DebeziumDecoder.of(
        key=key,
        order=order,
        truncate=truncate,
        unavailable=unavailable,
        on_error=on_error,
        placeholder=placeholder,
    )
    if not isinstance(record, Mapping):
        msg = (
            "decode_debezium takes a mapping with key, value, partition and offset, "
            f"got {shown(record)}; give a Row as row.asDict(), and a DataFrame to "
            "pyflinklike.spark.decode_debezium"
        )
        raise DeclarationTypeError(msg)
    return decoder.record(record)
