# SPDX-License-Identifier: Apache-2.0
"""The readers of checkpoints on the directory of a savepoint, which the command line reads likewise."""

import datetime as dt

import attrs
import pytest

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationValueError, SparkSetupError, UnknownStateError
from pyflinklike.state_processor import (
    diff_state,
    list_states,
    read_keyed_state,
    read_segments,
    read_state,
    read_timers,
    write_savepoint,
)
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of
from pyflinklike.testing import KeyedProcessHarness

pytestmark = pytest.mark.spark


class Last(KeyedProcessFunction):
    """Keeps the last element for a second, all of them, and a timer for each."""

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", Types.LONG())
        last.enable_time_to_live(
            StateTtlConfig.new_builder(1000).disable_cleanup_in_background().build()
        )
        self.last = runtime_context.get_state(last)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(value[1])
        self.all.add(value[1])
        ctx.timer_service().register_processing_time_timer(value[1])
        return []


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    """Of elements at 100 and 1,500 ms; it is 2,000."""
    path = tmp_path_factory.mktemp("saved") / "savepoint"
    with KeyedProcessHarness(Last(), lambda pair: pair[0], key_type=Types.STRING()) as harness:
        for now, key, number in [(100, "ann", 5000), (1500, "bob", 1800)]:
            harness.set_processing_time(now)
            harness.process_element((key, number))
        write_savepoint(harness, path)
    place = savepoint_location_of(path)  # as take_savepoint notes the times of a stream's batch
    place.finish(attrs.evolve(place.manifest(), processing_time=2000, watermark=0))
    return str(path)


def test_the_states_of_a_savepoint_are_listed(spark, savepoint):
    """With the sizes in its files, if asked."""
    names = [(info.name, info.entries) for info in list_states(spark, savepoint)]
    counted = [(info.name, info.entries) for info in list_states(spark, savepoint, sizes=True)]

    assert ([("all", None), ("last", None)], [("all", 2), ("last", 2)]) == (names, counted)


def test_the_entries_of_a_savepoint_are_read(spark, savepoint):
    """As of a checkpoint, judged by the clock of the savepoint."""
    frame = read_state(spark, savepoint, "last").orderBy("key")
    read = [(each.key, each.value, each.stamp, each.alive) for each in frame.collect()]
    expires = [row.at for row in frame.selectExpr("unix_millis(expires_at) as at").collect()]

    assert [("ann", 5000, 100, False), ("bob", 1800, 1500, True)] == read
    assert [1100, 2500] == expires


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ({"expired": False}, ["bob"]),
        ({"expired": False, "now": 500}, ["ann", "bob"]),
        ({"keys": ["ann", "eve"]}, ["ann"]),
        ({"operator": "Last"}, ["ann", "bob"]),
    ],
    ids=str,
)
def test_some_entries_of_a_savepoint_are_read(spark, savepoint, asked, keys):
    """By key, by what is expired and by the operator."""
    rows = read_state(spark, savepoint, "last", **asked).collect()

    assert keys == sorted(each.key for each in rows)


def test_the_timers_of_a_savepoint_are_read(spark, savepoint):
    """With whether they were due."""
    timers = read_timers(spark, savepoint).orderBy("timestamp").collect()
    told = [(each.key, each.domain, each.timestamp, each.due) for each in timers]

    assert [
        ("bob", "processing_time", 1800, True),
        ("ann", "processing_time", 5000, False),
    ] == told
    assert dt.timedelta(milliseconds=3200) == timers[1].time - timers[0].time


def test_what_is_read_of_a_savepoint_is_compared(spark, savepoint):
    """With itself nothing differs."""
    one = read_state(spark, savepoint, "all")

    assert [] == diff_state(one, read_state(spark, savepoint, "all")).collect()


@pytest.mark.parametrize(
    ("read", "error", "words"),
    [
        (lambda *at: read_state(*at, "other"), UnknownStateError, "got 'other'"),
        (lambda *at: read_state(*at, "last", operator=1), UnknownStateError, "got operator=1"),
        (lambda *at: read_state(*at, "last", batch_id=3), DeclarationValueError, "leave it out"),
        (read_keyed_state, SparkSetupError, r"Savepoint.read\(spark, path\) read it"),
        (read_segments, SparkSetupError, r"Savepoint.read\(spark, path\) read it"),
    ],
    ids=range(5),
)
def test_what_a_savepoint_does_not_have_is_refused(spark, savepoint, read, error, words):
    """The message names what reads a savepoint."""
    with pytest.raises(error, match=words):
        read(spark, savepoint)
