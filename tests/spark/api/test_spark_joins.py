# SPDX-License-Identifier: Apache-2.0
"""Joins of two keyed DataFrames: in batches, and what is refused."""

from __future__ import annotations

import pytest
from frame_support import PAIRS, SECOND, TIMES, Cheap, Counts, Pairs, click_feed, order_feed

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark import key_by


@pytest.fixture
def clicks(spark, tmp_path):
    """Two micro-batches."""
    return click_feed(spark, tmp_path)


@pytest.fixture
def orders(spark, tmp_path):
    """Two micro-batches."""
    return order_feed(spark, tmp_path)


def _between(clicks, orders, how="inner"):
    joined = key_by(clicks, "user").interval_join(key_by(orders, "who"), how)
    return joined.between(-500, 1_000)


def test_an_interval_join_of_batches_is_that_of_streams_without_late_records(clicks, orders):
    """Bounds are included unless told otherwise."""
    pairs = _between(clicks.bounded(), orders.bounded())
    wide = pairs.process(Pairs(), PAIRS, event_time=TIMES).collect()
    pairs = pairs.lower_bound_exclusive().upper_bound_exclusive()
    narrow = pairs.process(Pairs(), PAIRS, event_time=TIMES).collect()

    assert [("ann", "a", 5, 1_500), ("ann", "a", 50, 2_000)] == sorted(map(tuple, wide))
    assert [("ann", "a", 5, 1_500)] == sorted(map(tuple, narrow))


@pytest.mark.parametrize(
    ("declare", "error", "words"),
    [
        (lambda a, b: a.interval_join(1), DeclarationTypeError, "takes a keyed DataFrame"),
        (lambda a, b: a.interval_join(b, "semi"), DeclarationValueError, "how must be 'inner'"),
        (
            lambda a, b: a.interval_join(b).process(Pairs(), PAIRS, event_time=TIMES),
            DeclarationValueError,
            "call between",
        ),
        (
            lambda a, b: a.interval_join(b).between(2, 1).process(Pairs(), PAIRS, event_time=TIMES),
            DeclarationValueError,
            "must not be above the upper one, got 2 and 1 ms",
        ),
        (
            lambda a, b: (
                a.interval_join(b).between(1, 2).process(Counts(), PAIRS, event_time=TIMES)
            ),
            DeclarationTypeError,
            "takes a ProcessJoinFunction",
        ),
        (
            lambda a, b: a.interval_join(b).between(1, 2).process(Pairs(), PAIRS, event_time=None),
            DeclarationValueError,
            "needs the times of its records",
        ),
        (
            lambda a, b: a.interval_join(b).between("1", 2),
            DeclarationTypeError,
            "lower_bound must be",
        ),
        (
            lambda a, b: a.join(b).window(SECOND).apply(Pairs(), "n int", event_time=TIMES),
            DeclarationTypeError,
            "takes a JoinFunction or a FlatJoinFunction",
        ),
        (
            lambda a, b: a.join(b).window(SECOND).apply(Cheap(), "n int"),
            DeclarationValueError,
            "got no event_time",
        ),
        (
            lambda a, b: a.co_group(b).window(SECOND).apply(Cheap(), "n int", event_time=TIMES),
            DeclarationTypeError,
            "takes a CoGroupFunction",
        ),
        (lambda a, b: a.join(key_by(b._df, "price")), DeclarationTypeError, "same types"),
    ],
)
def test_what_is_declared_wrongly_is_refused_at_once(clicks, orders, declare, error, words):
    """Before a query starts."""
    with pytest.raises(error, match=words):
        declare(key_by(clicks.bounded(), "user"), key_by(orders.bounded(), "who"))
