# SPDX-License-Identifier: Apache-2.0
"""One function, the same records, three hosts: the results are the same."""

from __future__ import annotations

from itertools import count

import pytest
from host_models import model_batch, model_stream
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from spark_support import (
    RICH_OUTPUT,
    RICH_SCHEMA,
    RICH_SIDE,
    Feed,
    Rich,
    drain,
    rich_batches,
    rich_harness,
    rich_outputs,
    rich_rows,
)

from pyflinklike.spark import key_by


@pytest.mark.telling
def test_harness_batch_and_stream_agree(spark, tmp_path):
    """Random records give in a stream and in a batch what the harness gives, and all the same where order allows."""
    numbers = count()

    # Nothing is shrunk: an example is a whole stream, and each output tells what made it.
    @settings(
        max_examples=1 if settings().max_examples < 1_000 else 2,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def check(seed):
        feed = Feed(spark, tmp_path / f"input {next(numbers)}", RICH_SCHEMA)
        feed.add(*rich_batches(seed, batches=3, size=250))
        _check_agreement(feed, tmp_path / f"checkpoint {next(numbers)}")

    check()


def _check_agreement(feed, checkpoint):
    options = {"event_time": "ts", "side_outputs": [RICH_SIDE], "max_parallelism": 4}
    stream = key_by(feed.stream(), "key").process(Rich(), RICH_OUTPUT, **options)
    batch = key_by(feed.bounded(), "key").process(Rich(), RICH_OUTPUT, **options)

    streamed = rich_rows(row for rows in drain(stream, checkpoint).values() for row in rows)
    batched = rich_rows(batch.collect())

    elements = feed.elements()
    assert rich_outputs(model_stream(rich_harness(), elements, "ts")) == streamed
    assert rich_outputs(model_batch(rich_harness(), elements, "ts")) == batched
    assert _even(batched) == _even(streamed)
    assert all(_even(batched))


def _even(outputs):
    """What came of the keys whose records come in order of time."""
    return [[row for row in rows if row[0].startswith("even")] for rows in outputs]
