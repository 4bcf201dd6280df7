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
from pyflinklike.errors import DeclarationTypeError, SparkSetupError
from pyflinklike.views import batch_frame
from pyflinklike.views.batch_frame import ServedStream

NOON = dt.datetime(2024, 1, 1, 12)


@attrs.frozen
class Frame:
    """A table of a session in New York, which runs these streams."""

    table: pa.Table
    streams: tuple[str, ...] = ()

    @property
    def sparkSession(self) -> Any:
        settings = {"spark.sql.session.timeZone": "America/New_York"}
        running = {
            each: SimpleNamespace(id=each, name=None, lastProgress=None) for each in self.streams
        }
        manager = SimpleNamespace(active=list(running.values()), get=running.get)
        return SimpleNamespace(conf=settings, streams=manager)

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


@pytest.fixture
def served(monkeypatch):
    """This process as one that a server of Spark Connect has started."""
    made = ServedStream()
    monkeypatch.setattr(batch_frame, "SERVED", made)
    monkeypatch.setenv("SPARK_CONNECT_LOCAL_URL", "sc://localhost")
    return made


def test_over_connect_the_stream_is_the_one_that_runs(view, served):
    """Once it is known it stays so, whatever else is started in its session later."""
    served.session = Frame(None, streams=("one",)).sparkSession
    view.foreach_batch(Frame(pa.table({"id": [1]})), 0)
    served.session = Frame(None, streams=("one", "two")).sparkSession
    view.foreach_batch(Frame(pa.table({"id": [2]})), 0)
    view.foreach_batch(Frame(pa.table({"id": [3]})), 1)

    assert [Row(id=1), Row(id=3)] == view.query(allow_scan=True)
    assert view.apply([{"id": 4}], 0)  # of no stream


@pytest.mark.parametrize("streams", [(), ("one", "two")])
def test_over_connect_a_stream_that_cannot_be_told_has_to_be_named(view, served, streams):
    """Rather than take batch 0 of one for batch 0 of another."""
    served.session = Frame(None, streams=streams).sparkSession
    frame = Frame(pa.table({"id": [1]}))
    with pytest.raises(
        SparkSetupError, match=rf"got {len(streams)} .*; name the stream: foreachBatch"
    ):
        view.foreach_batch(frame, 0)
    assert len(view) == 0

    view.foreach_batch(frame, 0, source="one")
    assert len(view) == 1


def test_a_frame_of_a_client_is_of_no_stream(view, monkeypatch):
    """Also while its session runs streams."""
    monkeypatch.delenv("SPARK_CONNECT_LOCAL_URL", raising=False)
    view.foreach_batch(Frame(pa.table({"id": [1]}), streams=("one",)), 0)

    assert view.apply([{"id": 2}], 0) is False
