# SPDX-License-Identifier: Apache-2.0
"""A function of batches: what it may declare, what it may give, what it sees."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.columns.columnar_records import ColumnRecords
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    OutputError,
    RequirementError,
    StateAccessError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.testing import KeyedProcessHarness

KEYS = {"k": ["a", "b"]}


class Declares(KeyedBatchFunction):
    """Declares what a test says."""

    def __init__(self, declare):
        self.declare = declare

    def open(self, ctx):
        self.declare(ctx)

    def process_batch(self, batch, ctx):
        """Nothing."""


@pytest.mark.parametrize(
    "declare",
    [
        lambda ctx: ctx.get_column_state(ListStateDescriptor("l", Types.LONG())),
        lambda ctx: ctx.get_column_state(MapStateDescriptor("m", Types.LONG(), Types.LONG())),
        lambda ctx: ctx.get_column_state(ValueStateDescriptor("p", Types.PICKLED_BYTE_ARRAY())),
        lambda ctx: ctx.get_column_state(ValueStateDescriptor("b", Types.LIST(Types.LONG()))),
        lambda ctx: ctx.get_column_state("count"),
        lambda ctx: ctx.get_state(ValueStateDescriptor("v", Types.LONG())),
        lambda ctx: ctx.get_map_state(MapStateDescriptor("m", Types.LONG(), Types.LONG())),
        lambda ctx: ctx.get_store("s"),
    ],
)
def test_what_is_no_column_is_refused(declare):
    """In open, with what to use instead."""
    with pytest.raises(DeclarationTypeError, match=r"KeyedProcessFunction|ValueStateDescriptor"):
        KeyedBatchHarness(Declares(declare), "k")


def test_a_backend_without_columns_is_refused():
    """With one that has them."""
    with pytest.raises(DeclarationValueError, match=r"use HashMapStateBackend\(\)"):
        KeyedBatchHarness(
            Declares(lambda ctx: None), "k", state_backend=EmbeddedRocksDBStateBackend()
        )


class Timed(KeyedProcessFunction):
    """Registers a timer."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)


@pytest.mark.parametrize(
    "kind", [Types.DOUBLE(), Types.TUPLE([Types.STRING(), Types.FLOAT()])], ids=str
)
def test_a_type_of_keys_that_has_no_hashes_is_refused(kind):
    """Before a record comes; keys of any type may have such values."""
    with pytest.raises(DeclarationValueError, match=r"got .*leave the type of the keys out"):
        KeyedBatchHarness(Emits(None), "k", key_type=kind)
    with KeyedBatchHarness(Emits(None), "k") as harness:
        harness.process_batch({"k": [0.5, -0.0, 0.0, 0.5]})
        assert 2 == harness._operator.backend.columns.index.count


def test_timers_that_were_restored_are_refused():
    """They would never fire, without an error."""
    with KeyedProcessHarness(Timed(), lambda row: row["k"]) as rows:
        rows.process_element({"k": "a"})
        snapshot = rows.snapshot()
    harness = KeyedBatchHarness(Declares(lambda ctx: None), "k", restore=snapshot)

    with pytest.raises(IncompatibleStateError, match="cannot fire timers, got 1"):
        harness.process_watermark(3)


class Emits(KeyedBatchFunction):
    """Gives what a test says."""

    def __init__(self, output):
        self.output = output

    def process_batch(self, batch, ctx):
        ctx.output(OutputTag("side", Types.LONG()), {"n": batch.groups.counts})
        return self.output


@pytest.mark.parametrize(
    "output",
    [
        {"n": np.array([1, 2])},
        {"n": [1, 2]},
        {"n": pa.chunked_array([[1], [2]])},
        pa.table({"n": [1, 2]}),
        pa.RecordBatch.from_pydict({"n": [1, 2]}),
    ],
)
def test_columns_are_emitted_in_any_form(output):
    """And side outputs by their tag."""
    harness = KeyedBatchHarness(Emits(output), "k")

    assert [{"n": 1}, {"n": 2}] == harness.process_batch(KEYS).to_pylist()
    (side,) = harness.side_output(OutputTag("side", Types.LONG()))
    assert [1, 1] == side.column("n").to_pylist()


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ({"n": [1, 2], "m": [1]}, "columns must be of one length"),
        ([1, 2], "takes a mapping of columns"),
        ({"n": [1, "a"]}, "must be columns of Arrow's types"),
        (Row(n=1), "takes a mapping of columns"),
    ],
)
def test_what_is_no_columns_is_refused(output, why):
    """With what to give."""
    with pytest.raises(OutputError, match=why):
        KeyedBatchHarness(Emits(output), "k").process_batch(KEYS)


def test_the_users_error_names_the_call():
    """And keeps its cause."""

    class Raises(KeyedBatchFunction):
        def process_batch(self, batch, ctx):
            raise ValueError("no")

    with pytest.raises(UserFunctionError, match=r"Raises\.process_batch failed for a .* 2") as e:
        KeyedBatchHarness(Raises(), "k").process_batch(KEYS)

    assert isinstance(e.value.__cause__, ValueError)


def test_a_batch_shows_its_columns():
    """As Arrow, NumPy and pandas, and event times in ms."""
    seen = []

    class Looks(KeyedBatchFunction):
        def process_batch(self, batch, ctx):
            seen.append(batch)

    at = [dt.datetime(1970, 1, 1, 0, 0, 2), None, dt.datetime(1970, 1, 1, 0, 0, 1)]
    harness = KeyedBatchHarness(Looks(), "k", event_time="ts")
    harness.process_batch({"k": ["a", "b", "a"], "n": [1, 2, 3], "ts": at})
    batch = seen[0]

    assert [2, 3, 1] == batch.numpy("n").tolist()
    assert ["b", "a", "a"] == batch["k"].to_pylist()
    assert [-(2**63), 1000, 2000] == batch.timestamps.tolist()
    assert ["k", "n", "ts"] == batch.column_names
    assert [2, 3, 1] == batch.to_pandas()["n"].tolist()
    with pytest.raises(StateAccessError, match="choose from"):
        batch["m"]
    with pytest.raises(StateValueError, match="1 nulls"):
        batch.numpy("ts")


def test_polars_is_asked_for_when_it_is_needed(monkeypatch):
    """By a batch's view, and with what to install."""
    monkeypatch.setitem(sys.modules, "polars", None)

    class Views(KeyedBatchFunction):
        def process_batch(self, batch, ctx):
            with pytest.raises(RequirementError, match="pip install polars"):
                batch.to_polars()

    KeyedBatchHarness(Views(), "k").process_batch(KEYS)


def test_a_batch_function_needs_its_key_column():
    """And its event time, by name."""
    harness = KeyedBatchHarness(Emits(None), "user", event_time="ts")

    with pytest.raises(StateValueError, match="need the column 'user'"):
        harness.process_batch({"ts": [1]})
    with pytest.raises(StateValueError, match="need the column 'ts'"):
        harness.process_batch({"user": ["a"]})
    assert [] == harness.process_batch({"user": [], "ts": []}).to_pylist()


class Frame:
    """Stands for a DataFrame of Polars, which need not be installed."""

    def to_arrow(self):
        return pa.table({"k": ["a", "b"]})


@pytest.mark.parametrize(
    "records",
    [
        {"k": ["a", "b"]},
        pa.table({"k": ["a", "b"]}),
        pa.table({"k": ["a", "b"]}).to_pandas(),
        Frame(),
    ],
    ids=["mapping", "table", "pandas", "polars"],
)
def test_records_and_rows_come_in_the_same_forms(records):
    """A function may return what the harness takes."""
    with KeyedBatchHarness(Emits(records), "k") as harness:
        assert [{"k": "a"}, {"k": "b"}] == harness.process_batch(records).to_pylist()
        with pytest.raises(DeclarationTypeError, match="records are a mapping of columns"):
            harness.process_batch(5)


def test_numpy_is_asked_for_when_it_is_needed():
    """With what to install; functions of elements do without."""
    code = """
import subprocess
import sys
sys.modules["numpy"] = None
import pyflinklike.spark._host.batch_host, pyflinklike.testing
try:
    from pyflinklike.columns import KeyedBatchFunction
except pyflinklike.errors.RequirementError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "a KeyedBatchFunction needs the package numpy" in done.stdout
    assert "pip install '.[columns]' in a checkout of pyflinklike wherever it runs" in done.stdout


@pytest.mark.parametrize(
    ("watermark", "late"), [(MIN_WATERMARK, 0), (4, 0), (5, 1), (7, 2), (8, 3), (9, 3)]
)
def test_a_record_of_columns_is_late_once_the_watermark_has_reached_its_time(watermark, late):
    """As one that comes by itself; one without a time is never late."""
    metrics = OperatorMetrics()
    times = np.array([MIN_WATERMARK, 5, 6, 8])
    ColumnRecords(range(4), None, times).count_into(metrics, watermark)

    assert (4, late) == (metrics.records, metrics.late_records)
