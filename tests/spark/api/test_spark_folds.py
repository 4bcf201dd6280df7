# SPDX-License-Identifier: Apache-2.0
"""Folds of a keyed DataFrame: final in a batch; `test_spark_faults_frames` has the streams."""

from __future__ import annotations

import pytest
from frame_support import payment_feed
from spark_support import at

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark import key_by


@pytest.fixture
def feed(spark, tmp_path):
    """Three micro-batches."""
    return payment_feed(spark, tmp_path)


def test_a_batch_gives_out_the_last_fold_of_each_key(feed):
    """In order of event time where one is given: of two equal ones the earlier stays."""
    least = key_by(feed.bounded(), "user").min_by("n", event_time="ts")

    assert [("ann", 1, at(0)), ("bob", 1, at(9_000))] == sorted(
        (row.user, row.n, row.ts) for row in least.collect()
    )


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
        ("sum", "ts", DeclarationTypeError, "got 'ts' of type timestamp"),
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
    with pytest.raises(DeclarationValueError, match="at its end, which it knows by event time"):
        key_by(feed.stream(), "user").sum("n", running=False)
