# SPDX-License-Identifier: Apache-2.0
"""Folds of a keyed DataFrame: running on a stream and over a restart, final in a batch."""

from __future__ import annotations

from decimal import Decimal

import pytest
from spark_support import Feed, at, drain, pickle_by_value, rows_of

from pyflinklike import Row
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark import key_by

pickle_by_value(__name__)

SCHEMA = "user string, n int, price decimal(10,2), ts timestamp, tags array<string>"
FIRST = [("ann", 5, "1.10", at(2_000), ["x"]), ("bob", 1, "9.99", at(1_000), None)]
SECOND = [("ann", 3, "0.05", at(1_500), []), ("ann", 3, "2.00", at(3_000), ["y", None])]


def _rows(rows):
    return [(user, n, Decimal(price), ts, tags) for user, n, price, ts, tags in rows]


@pytest.fixture
def feed(spark, tmp_path):
    """Two micro-batches."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(_rows(FIRST), _rows(SECOND))
    return feed


@pytest.mark.telling
def test_a_stream_gives_out_every_fold_and_goes_on_after_a_restart(feed, tmp_path):
    """The fold of the second run begins with what the first one kept, arrays, decimals and instants included."""

    def run():
        sums = key_by(feed.stream(), "user").sum("price", max_parallelism=4)
        return rows_of(drain(sums, tmp_path / "checkpoint"))

    before = run()
    feed.add(_rows([("bob", 7, "0.01", at(9_000), ["z"]), ("ann", 7, "0.01", at(9_000), [])]))

    ann = [
        ("ann", 5, Decimal(price), at(2_000), ["x"]) for price in ("1.10", "1.15", "3.15", "3.16")
    ]
    bob = [("bob", 1, Decimal(price), at(1_000), None) for price in ("9.99", "10.00")]
    assert ([*ann[:3], bob[0]], [ann[3], bob[1]]) == (before, run())


def test_a_batch_gives_out_the_last_fold_of_each_key(feed):
    """In order of event time where one is given: of two equal ones the earlier stays."""
    least = key_by(feed.bounded(), "user").min_by("n", event_time="ts")

    assert [("ann", 3, at(1_500)), ("bob", 1, at(1_000))] == sorted(
        (row.user, row.n, row.ts) for row in least.collect()
    )


def test_a_batch_gives_out_every_fold_if_asked(feed):
    """As on a stream."""
    folds = key_by(feed.bounded(), "user").reduce(_add, running=True)

    assert [("ann", 5), ("ann", 8), ("ann", 11), ("bob", 1)] == sorted(
        (row.user, row.n) for row in folds.collect()
    )


def _add(first, second):
    return Row(**{**first.as_dict(), "n": first.n + second.n})


@pytest.mark.parametrize(
    ("fold", "position", "error", "words"),
    [
        ("sum", 0, DeclarationTypeError, "sum takes a column of numbers, got 'user'"),
        ("sum", "m", DeclarationValueError, "choose from .*'price'"),
        (
            "max_by",
            5,
            DeclarationValueError,
            "max_by takes the name or the position of a column, got 5",
        ),
        ("min", "tags", DeclarationTypeError, "got 'tags' of type array<string>"),
        ("max", None, DeclarationTypeError, "must be of int or str type"),
    ],
)
def test_a_field_that_cannot_be_folded_is_refused_at_declaration(
    feed, fold, position, error, words
):
    """Before a query starts."""
    with pytest.raises(error, match=words):
        getattr(key_by(feed.bounded(), "user"), fold)(position)


def test_a_stream_has_no_last_fold(feed):
    """It would never be given out."""
    with pytest.raises(DeclarationValueError, match="a stream gives out running folds"):
        key_by(feed.stream(), "user").sum("n", running=False)
