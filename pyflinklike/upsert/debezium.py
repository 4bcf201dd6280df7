# SPDX-License-Identifier: Apache-2.0
"""`decode_debezium`: the records of a change stream as events that an upsert applies.

What is done with each operation, as Debezium's `Envelope` defines them:

    c u r   the row is now `after`
    d       the row is gone, `after` is None
    t       the table was emptied: as `truncate` says
    m       a message in PostgreSQL's log: nothing to apply
    (null)  a tombstone, which lets Kafka's compaction forget the key: a delete once more

A DataFrame's records go through the same decoder as a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.upsert.debezium_decoder import DebeziumDecoder
from pyflinklike.upsert.unavailable import DEFAULT_PLACEHOLDER

__all__ = ["decode_debezium"]


def decode_debezium(
    record_or_df: Any,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Callable[[Mapping[str, Any]], Any] = "source",
    truncate: str = "error",
    unavailable: str = "keep",
    on_error: str = "raise",
    schema: Any = None,
    order_type: str = "array<bigint>",
    placeholder: str = DEFAULT_PLACEHOLDER,
) -> Any:
    """Decode a record of a Debezium topic, or a DataFrame of them.

    Args:
        record_or_df: A mapping with `key` and `value` (JSON text or bytes, None where there
            is none), `partition` and `offset`; or a DataFrame, also a streaming one, with
            these columns, as Spark's Kafka source gives them.  Partition and offset may be
            missing, but for `order="offset"`.
        key: The key's column, or columns.  None takes those of the record's own key; on a
            DataFrame that has to be the first column of `schema`.
        order: What orders the events of a key: the position in the database's log
            ("source", see `pyflinklike.upsert.source_order`), Kafka's partition and offset
            ("offset"), or a function of the record with its `key` and `value` parsed and the
            fields of the envelope beside them.
        truncate: What a truncation is: an "error", nothing ("ignore"), or an event with the
            op `t` and no key ("apply"), which the caller takes out before keying by it.
        unavailable: What becomes of a column that neither `after` nor `before` tells: it is
            named in the event's `unavailable` ("keep"), None ("null"), or an "error".
        on_error: "raise", "inline" (an event whose `error` tells why) or "drop".
        schema: Of a DataFrame: the table's row, as DDL or a `StructType`.
        order_type: Of a DataFrame whose `order` is a function: the DDL type of what it returns.
        placeholder: The connector's `unavailable.value.placeholder`.

    Returns:
        Of a record its event, or None where nothing is to apply.  Of a DataFrame another one
        with the fields of `CdcEvent` as columns: rows as structs of `schema`, a key of several
        columns as a struct, `event_time` as a timestamp, `source` as JSON text.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument does not do.
        KeyDecodeError, NullKeyError, ValueDecodeError: A record does not, with
            `on_error="raise"`; a DataFrame raises when it is computed.
    """
    decoder = DebeziumDecoder.of(
        key=key,
        order=order,
        truncate=truncate,
        unavailable=unavailable,
        on_error=on_error,
        placeholder=placeholder,
    )
    if isinstance(record_or_df, Mapping):
        if schema is not None:
            msg = f"schema= is of a DataFrame's rows, got {schema!r} with one record; leave it out"
            raise DeclarationValueError(msg)
        return decoder.record(record_or_df)
    if hasattr(record_or_df, "mapInArrow"):
        from pyflinklike.upsert.debezium_spark import decode_frame

        return decode_frame(record_or_df, decoder, schema, order_type)
    msg = (
        "decode_debezium takes a mapping with key, value, partition and offset, or a DataFrame "
        f"with these columns, got {record_or_df!r}; give a Row as row.asDict()"
    )
    raise DeclarationTypeError(msg)
