# SPDX-License-Identifier: Apache-2.0
"""Maps, flat maps and filters of a keyed DataFrame."""

from __future__ import annotations

import pytest
from spark_support import Feed, at, bounded, drain, pickle_by_value, rows_of

from pyflinklike import FilterFunction, FlatMapFunction, MapFunction, Types, ValueStateDescriptor
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.spark import key_by

pickle_by_value(__name__)

CLICKS = "user string, page string, ts timestamp"
ROWS = [("ann", "a", at(1)), ("bob", "b", at(2)), ("ann", "c", at(3)), ("ann", "c", at(4))]


class _Counting:
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def counted(self):
        self.count.update((self.count.value() or 0) + 1)
        return self.count.value()


class Numbered(_Counting, MapFunction):
    """The number of a click of its user."""

    def map(self, value):
        return value.user, self.counted()


class Spread(_Counting, FlatMapFunction):
    """A page as often as the number of the click."""

    def flat_map(self, value):
        return [(value.page,)] * self.counted()


class AllButTheFirst(_Counting, FilterFunction):
    """Clicks that are not the first of their user."""

    def filter(self, value):
        return self.counted() > 1


def test_maps_of_a_batch_have_state_of_their_keys(spark):
    """In the order of event time, where it is given."""
    clicks = key_by(bounded(spark, ROWS, CLICKS), "user")
    numbered = clicks.map(Numbered(), "user string, number long", event_time="ts")
    spread = clicks.flat_map(Spread(), "page string")

    assert [("ann", 1), ("ann", 2), ("ann", 3), ("bob", 1)] == rows_of(numbered.collect())
    assert ["a", "b", *"ccccc"] == [row.page for row in sorted(spread.collect())]


@pytest.mark.thorough
def test_a_filter_of_a_stream_goes_on_after_a_restart(spark, tmp_path):
    """Records stay as they are, with all their columns, and have their event time for what comes behind."""
    feed = Feed(spark, tmp_path / "input", CLICKS)
    feed.add(ROWS[:2])

    def run():
        clicks = key_by(feed.stream(), "user")
        later = clicks.filter(AllButTheFirst(), event_time="ts", max_parallelism=2)
        return rows_of(drain(later, tmp_path / "checkpoint"))

    first = run()
    feed.add(ROWS[2:])

    assert ([], ROWS[2:]) == (first, run())


def test_what_is_no_function_is_refused_at_once(spark):
    """Before a query starts."""
    with pytest.raises(DeclarationTypeError, match="must be a FilterFunction or a callable"):
        key_by(bounded(spark, ROWS, CLICKS), "user").filter("page")
