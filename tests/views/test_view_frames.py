# SPDX-License-Identifier: Apache-2.0
"""What a view asks of a DataFrame, without Spark: any frame that answers will do."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import attrs
import pyarrow as pa
import pytest

from pyflinklike import Row
from pyflinklike.errors import DeclarationTypeError

NOON = dt.datetime(2024, 1, 1, 12)


@attrs.frozen
class Frame:
    """A table of a session in New York that runs no stream."""

    table: pa.Table

    @property
    def sparkSession(self) -> Any:
        settings = {"spark.sql.session.timeZone": "America/New_York"}
        return SimpleNamespace(conf=settings)

    def toArrow(self) -> pa.Table:
        return self.table


def test_a_frame_is_a_batch_of_rows(view):
    """Its chunks in order; instants as local times of the session, as functions see them."""
    at = pa.array([NOON.replace(tzinfo=dt.timezone.utc)] * 2, pa.timestamp("us", tz="UTC"))
    chunks = [pa.table({"id": [n, n + 1], "at": at}) for n in (0, 2)]

    view.foreach_batch(Frame(pa.concat_tables(chunks)), 0)

    local = NOON - dt.timedelta(hours=5)
    assert [Row(id=n, at=local) for n in range(4)] == view.query(allow_scan=True)


def test_a_batch_of_no_stream_is_known_by_its_id(view):
    """As one that `apply` is given."""
    frame = Frame(pa.table({"id": [1]}))

    view.foreach_batch(frame, 7)
    view.foreach_batch(Frame(pa.table({"id": [2]})), 7)

    assert [Row(id=1)] == view.query(allow_scan=True)
    assert view.apply([{"id": 3}], 7) is False


@pytest.mark.parametrize("frame", [[{"id": 1}], None, pa.table({"id": [1]})])
def test_what_is_no_dataframe_is_refused(view, frame):
    """With a word on where rows go; nothing is applied."""
    with pytest.raises(
        DeclarationTypeError, match="foreach_batch takes a Spark DataFrame"
    ) as error:
        view.foreach_batch(frame, 0)

    assert str(error.value).endswith("give rows to apply()")
    assert len(view) == 0


def test_a_named_stream_counts_its_own_batches(view):
    """Batch 0 of one is not batch 0 of another, and comes once."""
    for source, number in [("one", 1), ("other", 2), ("one", 3)]:
        view.foreach_batch(Frame(pa.table({"id": [number]})), 0, source=source)

    assert [Row(id=1), Row(id=2)] == view.query(allow_scan=True)


def test_the_name_of_a_stream_is_a_str(view):
    """A DataFrame, a number and the like are refused, and nothing is applied."""
    with pytest.raises(DeclarationTypeError, match=r"must be a str, got 5; name the stream"):
        view.foreach_batch(Frame(pa.table({"id": [1]})), 0, source=5)

    assert len(view) == 0
