# SPDX-License-Identifier: Apache-2.0
"""Maps, flat maps and filters of a keyed DataFrame."""

from __future__ import annotations

import pytest
from spark_support import at, bounded, pickle_by_value, rows_of

from pyflinklike import FlatMapFunction, MapFunction, Types, ValueStateDescriptor
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


def test_maps_of_a_batch_have_state_of_their_keys(spark):
    """In the order of event time, where it is given."""
    clicks = key_by(bounded(spark, ROWS, CLICKS), "user")
    numbered = clicks.map(Numbered(), "user string, number long", event_time="ts")
    spread = clicks.flat_map(Spread(), "page string")

    assert [("ann", 1), ("ann", 2), ("ann", 3), ("bob", 1)] == rows_of(numbered.collect())
    assert ["a", "b", *"ccccc"] == [row.page for row in sorted(spread.collect())]


def test_what_is_no_function_is_refused_at_once(spark):
    """Before a query starts."""
    with pytest.raises(DeclarationTypeError, match="must be a FilterFunction or a callable"):
        key_by(bounded(spark, ROWS, CLICKS), "user").filter("page")
