# SPDX-License-Identifier: Apache-2.0
"""State leaves a checkpoint as a savepoint, and a new checkpoint begins with one."""

from __future__ import annotations

import shutil
import time
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from spark_support import (
    AFTER_ALL,
    RICH_OUTPUT,
    RICH_SCHEMA,
    RICH_SIDE,
    Feed,
    Rich,
    at,
    bounded,
    drain,
    milliseconds,
    model_stream,
    pickle_by_value,
    rich_batches,
    rich_outputs,
    rich_rows,
    rows_of,
    sentinel,
)

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    HostError,
    IncompatibleStateError,
)
from pyflinklike.spark import key_by, read_savepoint
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)

SEED = 20240310


def rich(feed, **options):
    """The rich function on a stream."""
    return key_by(feed.stream(), "key").process(
        Rich(), RICH_OUTPUT, event_time="ts", side_outputs=[RICH_SIDE], **options
    )


def harness(**options):
    """The rich function in a harness."""
    return KeyedProcessHarness(Rich(), key_selector=lambda value: value.key, **options)


def present(driven):
    """A harness whose clock is the stream's, by which entries of a day's TTL are alive."""
    driven.set_processing_time(time.time_ns() // 1_000_000)
    return driven


def rocksdb(directory, cls=EmbeddedRocksDBStateBackend):
    """A backend with its files there."""
    pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    backend = cls()
    backend.set_db_storage_paths(str(directory))
    return backend


def rows(*runs):
    """The main and side outputs of runs of the rich function."""
    return rich_rows(row for run in runs for batch in run.values() for row in batch)


def test_a_harness_goes_on_from_the_savepoint_of_a_stream(spark, tmp_path):
    """All states and timers of all key groups, also after an earlier batch, under the harness's own kind of keys."""
    feed = Feed(spark, tmp_path / "input", RICH_SCHEMA)
    *batches, last = rich_batches(SEED, batches=4, size=120)
    feed.add(*batches[:3])
    drain(rich(feed, max_parallelism=4), tmp_path / "checkpoint")
    feed.add(batches[3])
    drain(rich(feed, max_parallelism=4), tmp_path / "checkpoint")
    model = model_stream(harness(), feed.elements(), "ts")

    restored = harness(restore=read_savepoint(spark, tmp_path / "checkpoint"))
    for name in ("seq", "log", "items", "marks", "text", "mean"):
        assert model.num_keyed_state_entries(name) == restored.num_keyed_state_entries(name), name
    assert 0 < model.num_event_time_timers() == restored.num_event_time_timers()

    seen, watermark = len(model.output), model.watermark
    later = Feed(spark, tmp_path / "later", RICH_SCHEMA)
    later.add(*rich_batches(SEED + 1, batches=1, size=60), [last[0]])
    for each in (model, restored):
        each.process_watermark(watermark)
        model_stream(each, later.elements(), "ts")
    assert sorted(model.output[seen:]) == sorted(restored.output)

    early = harness(restore=read_savepoint(spark, tmp_path / "checkpoint", batch_id=0))
    first = KeyedProcessHarness(Rich(), key_selector=lambda value: value.key)
    first.process_elements((row, milliseconds(row.ts)) for row in feed.elements()[0])
    assert 0 < first.num_event_time_timers() == early.num_event_time_timers()


def test_a_stream_goes_on_from_the_snapshot_of_a_harness(spark, tmp_path):
    """Over another backend and max_parallelism, with timers in groups without data; once, whatever restarts."""
    before = Feed(spark, tmp_path / "before", RICH_SCHEMA)
    before.add(*rich_batches(SEED + 2, batches=3, size=120)[:-1])
    snapshot = model_stream(present(harness()), before.elements(), "ts").snapshot()
    feed = Feed(spark, tmp_path / "input", RICH_SCHEMA)
    later = rich_batches(SEED + 3, batches=3, size=5)
    options = {"max_parallelism": 16, "state_backend": rocksdb(tmp_path / "local")}

    feed.add(later[0])
    runs = [drain(rich(feed, from_savepoint=snapshot, **options), tmp_path / "checkpoint")]
    feed.add(later[1])
    runs.append(drain(rich(feed, from_savepoint=snapshot, **options), tmp_path / "checkpoint"))
    feed.add(later[2], later[3])
    runs.append(drain(rich(feed, **options), tmp_path / "checkpoint"))

    model = present(harness(restore=snapshot))
    assert 5 < model.num_event_time_timers()
    assert rich_outputs(model_stream(model, feed.elements(), "ts")) == rows(*runs)
