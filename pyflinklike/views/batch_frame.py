# SPDX-License-Identifier: Apache-2.0
"""The parts of a DataFrame that a view reads: its rows, and the stream that they belong to.

This module does not import PySpark: a Protocol says what a view needs from a DataFrame.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Protocol, runtime_checkable
from zoneinfo import ZoneInfo

import pyarrow as pa

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, SparkSetupError
from pyflinklike.types.arrow_rows import to_python, to_rows
from pyflinklike.types.row import Row

_QUERY_ID = "sql.streaming.queryId"  # as Spark's StreamExecution names it


@runtime_checkable
class BatchFrame(Protocol):
    """The part of a DataFrame that a view needs; PySpark's has it, classic or of Spark Connect."""

    @property
    def sparkSession(self) -> Any:  # noqa: N802 - Spark's name
        """The session, which knows its time zone and its streams."""


class Feed:
    """A DataFrame that is a batch for a view.

    Args:
        df: The DataFrame of a micro-batch, or any other.
        source: The name of its stream; None for the id that Spark gives it.

    Raises:
        DeclarationTypeError: It is not a DataFrame, or the name is not a str.
    """

    def __init__(self, df: BatchFrame, source: str | None = None) -> None:
        if not isinstance(df, BatchFrame):
            msg = (
                f"foreach_batch takes a Spark DataFrame, got {short_repr(df)}; give rows to apply()"
            )
            raise DeclarationTypeError(msg)
        if source is not None and not isinstance(source, str):
            msg = f"the source of a batch must be a str, got {short_repr(source)}; name the stream"
            raise DeclarationTypeError(msg)
        self.df: Any = df
        self._named = source

    def rows(self) -> list[Row]:
        """Collect the rows, in Spark's order.

        Values are the same as functions of pyflinklike get: a timestamp is a naive datetime in the
        session's time zone, while `collect` would show it in the driver's.
        """
        return rows_of(_collect(self.df), self.time_zone)

    @cached_property
    def time_zone(self) -> str:
        """The name of the session's time zone."""
        return str(self.df.sparkSession.conf.get("spark.sql.session.timeZone"))

    @property
    def zone(self) -> dt.tzinfo:
        """The session's time zone."""
        return zone_named(self.time_zone)

    @property
    def source(self) -> str:
        """The stream that batch ids belong to: its name, or its id; "" for a static DataFrame.

        The id stays with the stream's checkpoint.

        Raises:
            SparkSetupError: Over Spark Connect, the stream cannot be distinguished from others.
        """
        return self._stream_id if self._named is None else self._named

    @cached_property
    def _stream_id(self) -> str:
        session = self.df.sparkSession
        with contextlib.suppress(AttributeError, NotImplementedError):
            return session.sparkContext.getLocalProperty(_QUERY_ID) or ""
        return SERVED.id_for(session)

    @property
    def watermark(self) -> dt.datetime | None:
        """The stream's watermark in the batch before; None for a stream without one.

        It is also None if the stream does not run in the program's first session, or if a named
        stream cannot be distinguished from others.
        """
        query = self._query()
        progress = None if query is None else query.lastProgress
        text = None if progress is None else progress["eventTime"].get("watermark")
        if text is None or text.startswith("1970-01-01T00:00:00.000"):
            return None  # before the first event
        return dt.datetime.fromisoformat(text.replace("Z", "+00:00"))

    def _query(self) -> Any:
        try:
            stream = self._stream_id
        except SparkSetupError:
            return None
        if not stream:
            return None
        # The session of a micro-batch is a clone, which does not know the stream.
        session = self.df.sparkSession
        starter = SERVED.session or type(session).builder.getOrCreate()
        return starter.streams.get(stream)


def rows_of(table: pa.Table | pa.RecordBatch, time_zone: str) -> list[Row]:
    """Return the rows of a table, with timestamps as functions get them.

    Args:
        table: A result of Spark, in Arrow's form.
        time_zone: The name of the session's time zone.
    """
    arrays = [
        each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each
        for each in table.columns
    ]
    columns = [to_python(each, time_zone) for each in arrays]
    return to_rows(tuple(table.schema.names), columns, table.num_rows)


def zone_named(name: str) -> dt.tzinfo:
    """Return a time zone by a name that Spark accepts."""
    if name[0] in "+-":
        return dt.datetime.fromisoformat(f"2000-01-01T00:00:00{name}").tzinfo or dt.timezone.utc
    return ZoneInfo({"Z": "UTC"}.get(name, name))


def _collect(df: Any) -> pa.Table:
    if hasattr(df, "toArrow"):
        return df.toArrow()
    # PySpark 3.5 has no `toArrow`, and its pandas would change values on the way.
    streams = df.mapInArrow(_as_streams, "stream binary").collect()
    tables = [pa.ipc.open_stream(bytes(row[0])).read_all() for row in streams]
    return pa.concat_tables(tables) if tables else pa.table({})


def _as_streams(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        stream = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([stream], names=["stream"])


# The stream of a micro-batch over Spark Connect
#
# Over Spark Connect the function of `foreachBatch` runs in a Python process that the server starts for each
# run of a stream.  Spark passes the id of the batch, but not of the stream.  A view needs both, since the
# batches of each stream count from 0.  If only one stream runs in the session that started it, it is that
# stream.


_STARTED_BY_A_SERVER = "SPARK_CONNECT_LOCAL_URL"


class ServedStream:
    """The stream that this process serves, if a server of Spark Connect started it for one."""

    def __init__(self) -> None:
        self.session: Any = None
        """The session that started the stream, if it is known."""
        self._id: str | None = None

    def remember_session(self) -> None:
        """Remember the session that is active while the function of `foreachBatch` is unpickled.

        It started the stream.  Since Spark 4.3 a batch's session is a clone, which knows no
        streams.
        """
        connect = sys.modules.get("pyspark.sql.connect.session")
        if connect is not None and _STARTED_BY_A_SERVER in os.environ:
            self.session = connect.SparkSession.getActiveSession()

    def id_for(self, session: Any) -> str:
        """Return the stream's id; "" if this process serves no stream.

        Args:
            session: The session of the batch.

        Raises:
            SparkSetupError: The stream cannot be distinguished from others.
        """
        if _STARTED_BY_A_SERVER not in os.environ:
            return ""
        if self._id is None:
            active = (self.session or session).streams.active
            running = {query.id: query.name for query in active}
            if len(running) != 1:
                msg = (
                    "a view must know the stream of a batch, and over Spark Connect it knows it "
                    f"only if one stream runs in the session, got {len(running)} "
                    f"({list(running.values())}); name the stream: "
                    'foreachBatch(functools.partial(view.foreach_batch, source="<a name>"))'
                )
                raise SparkSetupError(msg)
            self._id = str(next(iter(running)))
        return self._id


SERVED = ServedStream()
"""The stream of this process."""
