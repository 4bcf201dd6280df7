# SPDX-License-Identifier: Apache-2.0
"""What docs/how-to/test-a-function.md says of Spark's TwsTester; it needs PySpark, but no session."""

import datetime as dt

import pytest
from probe import Probe, Record, harness

from pyflinklike import ListStateDescriptor, StateTtlConfig, Types, ValueStateDescriptor
from pyflinklike.errors import StateValueError, UserFunctionError

pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="TwsTester is in PySpark 4.2 and newer"
)

from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor, TwsTester

LONG = ValueStateDescriptor("s", Types.LONG())


class SparkProbe(StatefulProcessor):
    """Does with its states what its script does, as `Probe` with ours."""

    def __init__(self, script):
        self.script = script

    def init(self, handle):
        self.handle = handle
        self.value = handle.getValueState("value", "v int", 1_000)
        self.list = handle.getListState("list", "v array<int>")

    def handleInputRows(self, key, rows, timerValues):
        return iter([self.script(self, list(rows))])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        at = expiredTimerInfo.getExpiryTimeInMs()
        self.handle.registerTimer(at + 1)
        yield at


def test_only_the_harness_knows_ttl():
    """TwsTester's state stays, whatever its TTL."""
    tester = TwsTester(
        SparkProbe(lambda p, _: (p.value.get(), p.value.update((1,)))), timeMode="ProcessingTime"
    )
    tester.test("k", [])
    tester.setProcessingTime(1_000_000)
    expiring = ValueStateDescriptor("s", Types.LONG())
    expiring.enable_time_to_live(StateTtlConfig.new_builder(dt.timedelta(seconds=1)).build())
    with harness(Probe(expiring)) as h:
        h.process_element(Record("k", lambda state, _: state.update(1)))
        h.set_processing_time(1_000_000)

        assert [((1,), None)] == tester.test("k", [])
        assert [None] == h.process_element(Record("k", lambda state, _: state.value()))


def test_only_the_harness_looks_at_the_type_of_a_state():
    """A text in a state of ints."""
    tester = TwsTester(SparkProbe(lambda p, _: (p.value.update(("text",)), p.value.get())))
    with harness(Probe(LONG)) as h:
        assert [(None, ("text",))] == tester.test("k", [])
        with pytest.raises((StateValueError, UserFunctionError), match="text"):
            h.process_element(Record("k", lambda state, _: state.update("text")))


def test_only_in_twstester_a_value_changes_after_it_was_stored():
    """A list that its owner goes on writing to."""

    def store_and_change(add):
        mine = [1]
        add(mine)
        mine.append(2)

    tester = TwsTester(
        SparkProbe(
            lambda p, _: (store_and_change(lambda v: p.list.appendValue((v,))), list(p.list.get()))[
                1
            ]
        )
    )
    lists = ListStateDescriptor("s", Types.LIST(Types.LONG()))
    with harness(Probe(lists)) as h:
        h.process_element(Record("k", lambda state, _: store_and_change(state.add)))

        assert [[([1, 2],)]] == tester.test("k", [])
        assert [[[1]]] == h.process_element(Record("k", lambda state, _: list(state.get())))


def test_a_timer_that_a_timer_registers_waits_for_the_next_call_in_twstester():
    """In the harness it fires in the same advance, as on our hosts."""

    def again(_state, timestamp, ctx):
        if timestamp < 3:
            ctx.timer_service().register_processing_time_timer(timestamp + 1)
        return timestamp

    tester = TwsTester(
        SparkProbe(lambda p, _: p.handle.registerTimer(1)), timeMode="ProcessingTime"
    )
    tester.test("k", [])
    with harness(Probe(LONG, on_timer=again)) as h:
        h.process_element(
            Record("k", lambda _, ctx: ctx.timer_service().register_processing_time_timer(1))
        )

        assert ([1], [2]) == (tester.setProcessingTime(100), tester.setProcessingTime(101))
        assert [1, 2, 3] == h.set_processing_time(100)


def test_late_records_are_dropped_by_twstester_and_handed_over_by_the_harness():
    """As Spark and Flink do it."""
    tester = TwsTester(
        SparkProbe(lambda _, rows: len(rows)),
        timeMode="EventTime",
        eventTimeExtractor=lambda row: row.at,
    )
    tester.setWatermark(100)
    with harness(Probe(LONG)) as h:
        h.process_watermark(100)

        assert [1] == tester.test("k", [SparkRow(at=100), SparkRow(at=101)])
        assert [100] == h.process_element(Record("k", lambda _, ctx: ctx.timestamp()), 100)
