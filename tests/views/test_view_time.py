# SPDX-License-Identifier: Apache-2.0
"""The past of a view, and how fresh it is."""

from __future__ import annotations

import datetime as dt
import sqlite3

import pytest

from pyflinklike.views import Freshness, MaterializedView, ScanDisabledError, UnknownBatchError

# The past


def test_a_view_can_be_asked_for_the_past(view):
    """It is a mapping as the view was after a batch."""
    view.apply([{"id": "a", "n": 1}, {"id": "b", "n": 1}], 10)
    view.apply([{"id": "a", "n": 2}, {"id": "b", "op": "delete", "diff": -1}], 11)
    view.apply([{"id": "b", "n": 3}, {"id": "c", "n": 3}], 12)
    past = view.as_of(10)

    assert {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 1}} == past
    assert (2, ["a", "b"]) == (len(past), list(past))
    assert {"a": {"id": "a", "n": 2}} == view.as_of(11)
    assert (None, 1) == (view.as_of(11).get("b"), past["b"]["n"])
    assert [1] == [row["n"] for row in past.query({"id": ["b", "c"]})]
    assert {"a", "b"} == past.get_many("abc").keys()
    with pytest.raises(KeyError):
        past["c"]
    with pytest.raises(ScanDisabledError):
        past.query()


def test_the_past_is_kept_for_as_many_batches_as_the_history(tmp_path):
    """One that was asked for in time is refused once it is gone."""
    with MaterializedView("v", key="id", path=tmp_path, history=2) as view:
        for number in range(3):
            view.apply([{"id": "a", "n": number}], number)
        kept = view.as_of(1)

        assert 1 == kept["a"]["n"]
        for number in (0, 3, -1):
            with pytest.raises(UnknownBatchError, match="history"):
                view.as_of(number)
        view.apply([], 3)
        with pytest.raises(UnknownBatchError):
            kept.get("a")


def test_a_history_of_one_batch_keeps_no_past(tmp_path):
    """Nor any rows of it."""
    with MaterializedView("v", key="id", path=tmp_path, history=1) as view:
        for number in range(3):
            view.apply([{"id": "a", "n": number}], number)

        assert {"a": {"id": "a", "n": 2}} == view.as_of(2)
        with sqlite3.connect(view.path) as other:
            assert [(0,)] == other.execute("SELECT count(*) FROM changes").fetchall()
        other.close()


# Freshness


def test_an_empty_view_is_not_fresh(view):
    """Nothing was applied."""
    assert Freshness(None, None, None) == view.freshness


def test_freshness_is_by_batches_where_no_event_time_is_known(view, clock):
    """The lag is the time since the last batch."""
    view.apply([], 4)
    clock.now = 1_250

    assert (4, None, 250) == view.freshness


def test_freshness_is_by_the_watermark_where_one_is_known(tmp_path, clock):
    """It never goes back, and what the caller says counts as well."""
    with MaterializedView("v", key="id", path=tmp_path, event_time="at", clock=clock) as view:
        view.apply([{"id": 1, "at": 700}, {"id": 2, "at": 900}, {"id": 3, "at": None}], 0)
        assert (0, 900, 100) == view.freshness

        view.apply([{"id": 1, "at": 800}], 1)
        assert (1, 900, 100) == view.freshness

        view.apply([], 2, watermark=dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc))
        assert (2, 1_000, 0) == view.freshness


def test_an_order_of_datetimes_tells_the_event_time(tmp_path, clock):
    """One of numbers does not: they may be offsets."""
    at = dt.datetime(1970, 1, 1, 0, 0, 0, 600_000)
    with MaterializedView("times", key="id", order_by="at", path=tmp_path, clock=clock) as view:
        view.apply([{"id": 1, "at": at}], 0)
        assert (0, 600, 400) == view.freshness
    with MaterializedView("offsets", key="id", order_by="at", path=tmp_path, clock=clock) as view:
        view.apply([{"id": 1, "at": 600}], 0)
        assert None is view.freshness.watermark
