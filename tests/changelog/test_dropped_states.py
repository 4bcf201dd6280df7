# SPDX-License-Identifier: Apache-2.0
"""States that a program declares no more, and that it takes out of its checkpoint."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

from checkpoint_support import Checkpoint, Program
from pyspark.sql import types as st
from simulated.frames import SimulatedQuery

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.segment_chain import sections_of
from pyflinklike._changelog.segments import read_segment
from pyflinklike.errors import DeclarationError, IncompatibleStateError, UnknownStateError
from pyflinklike.spark import key_by
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, group_ids
from pyflinklike.state_processor._spark.initial_state import savepoint_of
from pyflinklike.stores import WindowStoreDescriptor

KEYS = [str(number) for number in range(20)]
backends = pytest.mark.parametrize(
    "backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend], ids=["heap", "rocksdb"]
)


class Visits(KeyedProcessFunction):
    """Counts the records of a key; what else it keeps is said when it is made.

    Args:
        others: "old" and "words", or none of them.
    """

    def __init__(self, *others):
        self.others = others

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        if "old" in self.others:
            old = MapStateDescriptor("old", Types.LONG(), Types.STRING())
            self.old = runtime_context.get_map_state(old)
        if "words" in self.others:
            words = WindowStoreDescriptor("words", Types.STRING(), Types.LONG(), window_size=1000)
            self.words = runtime_context.get_store(words)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        if "old" in self.others:
            self.old.put(value.n, "x" * 50)
        if "words" in self.others:
            self.words.put("w", value.n, 0)
        ctx.timer_service().register_processing_time_timer(1_000_000)
        yield value.key, self.count.value()


def program(*others, drop=(), backend=HashMapStateBackend):
    """A program that keeps these states beside the count, and drops those."""
    return Program(
        Visits(*others), max_parallelism=4, drop_states=tuple(drop), state_backend=backend()
    )


def begun(*others, backend=HashMapStateBackend):
    """A checkpoint with records of all keys."""
    checkpoint = Checkpoint()
    checkpoint.run(program(*others, backend=backend), [(key, 7) for key in KEYS], time=100)
    return checkpoint


def tables_in(checkpoint):
    """The tables of the user's that segments hold, by key group; what no head names is gone."""
    found = {}
    for index, group_id in enumerate(group_ids(4)):
        blobs = checkpoint.blobs[group_id]
        log = [read_segment(blob, "tested") for at, blob in sorted(blobs.items()) if at >= 0]
        names = {each.declaration.name for each in sections_of(log, "tested")}
        found[index] = sorted(name for name in names if not name.startswith("__"))
    return found


def of_group(index):
    """Keys of one key group."""
    return [key for key in KEYS if program().group_of(key) == index]


@pytest.mark.restarts("state: one in drop_states", "goes on")
@backends
def test_a_dropped_state_leaves_each_key_group_in_its_next_batch_with_records(backend):
    """A group without records keeps it, and what else is kept is as it was."""
    checkpoint = begun("old", backend=backend)
    later = program(drop=["old"], backend=backend)
    given = checkpoint.run(later, [(key, 8) for key in of_group(1)], time=200)
    assert sorted((key, 2) for key in of_group(1)) == given
    expected = {0: ["count", "old"], 1: ["count"], 2: ["count", "old"], 3: ["count", "old"]}
    assert expected == tables_in(checkpoint)
    assert {"old": 200} == checkpoint.record().dropped
    assert ["count"] == sorted(checkpoint.record().states)
    given = checkpoint.run(later, [(key, 9) for key in KEYS], time=300)
    assert {index: ["count"] for index in range(4)} == tables_in(checkpoint)
    assert sorted((key, 3 if key in of_group(1) else 2) for key in KEYS) == given


def test_a_store_leaves_with_all_of_its_tables():
    """And a state beside it stays, undeclared as it is."""
    checkpoint = begun("old", "words")
    assert any("words/" in name for name in tables_in(checkpoint)[0])
    checkpoint.run(program(drop=["words"]), [(key, 8) for key in KEYS], time=200)
    assert {index: ["count", "old"] for index in range(4)} == tables_in(checkpoint)


def test_timers_alone_drop_nothing():
    """For the record is not written then, and would not tell of it."""
    checkpoint = begun("old")
    checkpoint.expire(program(drop=["old"]), time=2_000_000)
    assert {index: ["count", "old"] for index in range(4)} == tables_in(checkpoint)
    assert {} == checkpoint.record().dropped


@pytest.mark.restarts("state: one that was in drop_states, while key groups may have it", "refused")
@pytest.mark.restarts("state: one that was in drop_states, when no key group has it", "goes on")
def test_a_restart_without_the_option_is_refused_until_nothing_is_left():
    """Whether it declares the state again or not; then it begins empty."""
    checkpoint = begun("old")
    later = program(drop=["old"])
    checkpoint.run(later, [(key, 8) for key in of_group(1)], time=200)
    expected = r"3 of 4 key groups had .* \(0, 2, 3\), got no drop_states .* drop_states=\['old'\]"
    for one in (program(), program("old")):
        with pytest.raises(IncompatibleStateError, match=expected):
            checkpoint.run(one, [(key, 8) for key in KEYS], time=300)
    checkpoint.run(later, [(key, 8) for key in KEYS], time=300)
    checkpoint.run(later, [(key, 8) for key in KEYS], time=400)  # the option may stay
    checkpoint.run(program("old"), [(key, 9) for key in KEYS], time=500)
    assert {} == checkpoint.record().dropped
    assert {index: ["count", "old"] for index in range(4)} == tables_in(checkpoint)


def test_a_clock_that_was_set_back_makes_no_key_group_look_served():
    """Groups were served later, by their time, than the batch that begins to drop."""
    checkpoint = begun("old")
    checkpoint.run(program("old"), [(key, 8) for key in KEYS], time=9000)
    checkpoint.run(program(drop=["old"]), [(key, 8) for key in of_group(1)], time=200)
    with pytest.raises(IncompatibleStateError, match="4 of 4 key groups"):
        checkpoint.run(program(), [(key, 8) for key in KEYS], time=300)


@pytest.mark.restarts("state: one in drop_states that is declared, or that is not there", "refused")
@pytest.mark.parametrize(
    ("others", "drop", "error", "match"),
    [
        ((), ["odl"], UnknownStateError, r"\['count', 'old'\], got 'odl'; did you mean 'old'"),
        (("old",), ["old"], DeclarationError, "got 'old', which the function declares; remove one"),
        ((), ["count"], DeclarationError, "got 'count', which the function declares; remove one"),
    ],
)
def test_a_name_that_cannot_be_dropped_is_an_error(others, drop, error, match):
    """A misspelt one, and one that the program declares."""
    checkpoint = begun("old")
    with pytest.raises(error, match=match):
        checkpoint.run(program(*others, drop=drop), [(key, 8) for key in KEYS], time=200)
    assert {index: ["count", "old"] for index in range(4)} == tables_in(checkpoint)


def test_a_new_checkpoint_has_nothing_to_drop():
    """The name may be a mistake, and nobody would find out."""
    with pytest.raises(UnknownStateError, match=r"has, \[\], got 'old'; leave it out"):
        Checkpoint().run(program(drop=["old"]), [("1", 1)], time=1)


def test_a_savepoint_has_no_half_of_a_state():
    """Some key groups have lost it already."""
    checkpoint = begun("old")
    checkpoint.run(program(drop=["old"]), [(key, 8) for key in of_group(1)], time=200)
    blobs = {key: checkpoint.blobs[key] for key in (REGISTRY_KEY, *group_ids(4))}
    merged = read_segment(savepoint_of(blobs, "tested"), "tested")
    names = {each.declaration.name for each in sections_of([merged], "tested")}
    assert "count" in names
    assert "old" not in names


def test_every_operator_over_keyed_streams_takes_the_option():
    """A function, a fold, and windows; a name that is there twice counts once."""
    schema = st.StructType(
        [st.StructField("key", st.StringType()), st.StructField("n", st.LongType())]
    )
    query = SimulatedQuery(2)
    drop: dict[str, Any] = {"drop_states": ["old", "old"]}
    output = st.StructType([st.StructField("key", st.StringType())])
    key_by(query.source(schema), "key").process(Visits(), output, **drop)
    key_by(query.source(schema), "key").sum("n", **drop)
    key_by(query.source(schema), "key").count_window(3).sum("n", **drop)
    assert [("old",)] * 3 == [each.plan.drop_states for each in query.operators]
