# SPDX-License-Identifier: Apache-2.0
"""A topic without the records that were written twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pyflinklike import KeyedProcessFunction, StateTtlConfig, Types, ValueStateDescriptor
from pyflinklike._clock import DurationLike
from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.messages import HEADER
from pyflinklike.spark import key_by

__all__ = ["drop_repeats"]

_ID: Final = "pyflinklike_record_id"


class DropRepeats(KeyedProcessFunction):
    """Passes the first record of each id on, and drops the others.

    Args:
        within: How long an id is remembered, in processing time.
    """

    def __init__(self, within: DurationLike) -> None:
        self._within = within

    def open(self, runtime_context: Any) -> None:
        """Declare the state: one flag per id, forgotten after that time."""
        seen = ValueStateDescriptor("seen", Types.BOOLEAN())
        seen.enable_time_to_live(StateTtlConfig.new_builder(self._within).build())
        self._seen = runtime_context.get_state(seen)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Yield the record, unless one with the same id has come before."""
        del ctx
        if self._seen.value() is None:
            self._seen.update(True)
            # The last column is the id, which `drop_repeats` has added.
            yield tuple(value)[:-1]


def drop_repeats(
    records: DataFrame, within: DurationLike, *, uid: str = "drop_repeats"
) -> DataFrame:
    """Drop records that a writer with `recordIds` wrote again.

    A record without such an id always passes.  A repeat that is read later than `within` after the
    first one passes, too; no other record is ever dropped.  The state is one small entry per record for
    that time.

    Args:
        records: A stream or a batch of Kafka's columns, read with `includeHeaders`.
        within: How long ids are remembered, in processing time; a duration, or ms.  It must be longer
            than the writing query may be down between two attempts at a micro-batch.
        uid: The name of the operator in the checkpoint.

    Returns:
        The records with the same columns.

    Raises:
        DeclarationValueError: The DataFrame has no column of headers.
    """
    if "headers" not in records.columns:
        msg = (
            "repeats are recognised by their headers, got no column headers; read with "
            'option("includeHeaders", "true")'
        )
        raise DeclarationValueError(msg)
    given = sql.expr(f"filter(headers, each -> each.key = '{HEADER}')[0].value").cast("string")
    # A record without an id gets its own position as its id, so it is never a repeat.
    place = sql.concat_ws("/", "topic", "partition", "offset")
    named = records.withColumn(_ID, sql.coalesce(given, place))
    return key_by(named, _ID).process(DropRepeats(within), records.schema, uid=uid)
