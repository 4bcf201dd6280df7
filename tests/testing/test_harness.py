# SPDX-License-Identifier: Apache-2.0
"""Driving `KeyedProcessHarness`: elements, time, outputs, keys, arguments."""

import datetime as dt
from inspect import signature

import pytest
from probe import Probe, Record, drive, harness

from pyflinklike import (
    MAX_WATERMARK,
    HashMapStateBackend,
    KeyedProcessFunction,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchHarness
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    StateAccessError,
    StateValueError,
)
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness, KeyedTwoInputHarness

LONG = ValueStateDescriptor("s", Types.LONG())
OPTIONS = [
    *("state_backend", "restore", "max_parallelism"),
    *("key_type", "job_parameters", "allow_pickle", "on_error"),
]


class RunningTotal(KeyedProcessFunction):
    """The example of the documentation: a total per user, with a timer a minute later."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value.amount
        self.total.update(total)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
        yield ctx.get_current_key(), total

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "quiet since", timestamp


def by_user(row):
    """The key of an element."""
    return row.user


# Driving


def test_the_documentations_example_runs():
    """Elements, watermarks and what they put out."""
    with KeyedProcessHarness(
        RunningTotal(), key_selector=by_user, state_backend=HashMapStateBackend()
    ) as h:
        assert [("a", 3)] == h.process_element(Row(user="a", amount=3), timestamp=1_000)
        assert [("a", 5)] == h.process_element(Row(user="a", amount=2), timestamp=1_000)
        assert 1 == h.num_event_time_timers()
        assert [("a", "quiet since", 61_000)] == h.process_watermark(61_000)
        assert 1 == h.num_keyed_state_entries("total")
        assert [("a", 3), ("a", 5), ("a", "quiet since", 61_000)] == h.output


def test_bytes_of_a_state_are_those_of_its_entries():
    """None while there are none, more with more, and of this state alone."""
    h = harness(Probe(LONG))
    assert 0 == h.num_keyed_state_bytes("s")
    h.process_element(Record("a", lambda state, _: state.update(1)))
    one = h.num_keyed_state_bytes("s")
    for number in range(1_000):
        h.process_element(Record(f"{number:08}", lambda state, _: state.update(1)))

    assert 0 < one < 1_000 < 1_000 * (8 + 8) < h.num_keyed_state_bytes("s") < len(h.snapshot()) * 9
    with pytest.raises(StateAccessError, match="no state 'other' is declared"):
        h.num_keyed_state_bytes("other")


def test_time_is_what_it_was_set_to():
    """It moves by nothing else."""
    h = harness(Probe())
    h.set_processing_time(5)
    h.process_watermark(7)
    h.process_element(Record("k", lambda _state, _ctx: None), timestamp=100)
    assert (5, 7) == (h.processing_time, h.watermark)
    h.end_of_input()
    assert (5, MAX_WATERMARK) == (h.processing_time, h.watermark)


def test_many_elements_are_processed_in_order():
    """The outputs are those of all of them."""
    h = harness(Probe())
    records = [(Record("k", lambda _, ctx: ctx.timestamp()), time) for time in (3, 1, None)]
    assert [3, 1, None] == h.process_elements(records)


@pytest.mark.parametrize("selector", [by_user, lambda row: row["user"], lambda row: row[0]])
def test_any_callable_selects_a_key(selector):
    """By name or by index."""
    h = KeyedProcessHarness(RunningTotal(), key_selector=selector)
    assert [("a", 1)] == h.process_element(Row(user="a", amount=1), 0)


def test_a_function_knows_where_it_runs():
    """One instance with 128 key groups, and the parameters it was given."""
    probe = Probe()
    harness(probe, job_parameters={"a": "b"})
    context = probe.runtime_context
    assert ("Probe", "Probe (1/1)") == (
        context.get_task_name(),
        context.get_task_name_with_subtasks(),
    )
    assert (0, 1, 128, 0) == (
        context.get_index_of_this_subtask(),
        context.get_number_of_parallel_subtasks(),
        context.get_max_number_of_parallel_subtasks(),
        context.get_attempt_number(),
    )
    parameters = context.get_job_parameter("a", "x"), context.get_job_parameter("c", "x")
    assert ("b", "x") == parameters


def test_metrics_can_be_read():
    """As the function registered and counted them."""
    probe = Probe()
    h = harness(probe)
    probe.runtime_context.get_metrics_group().counter("seen").inc(2)
    assert 2 == h.metrics()["seen"]


def test_entries_of_an_unknown_state_are_not_counted():
    """The declared ones are named."""
    with pytest.raises(StateAccessError, match=r"no state 'x' is declared, got only \['s'\]"):
        drive(LONG).entries("x")


# Arguments


@pytest.mark.parametrize(
    ("harness_class", "names"),
    [
        (KeyedProcessHarness, ["function", "key_selector"]),
        (KeyedBatchHarness, ["function", "key_columns", "event_time"]),
        (KeyedTwoInputHarness, ["function", "key_selector1", "key_selector2"]),
        (BroadcastHarness, ["function", "broadcast_states", "key_selector"]),
    ],
)
def test_arguments_may_be_given_by_position(harness_class, names):
    """The order is part of the signature, which shows each option, too: they are given by name."""
    parameters = signature(harness_class).parameters.values()
    assert names == [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert OPTIONS == [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


def test_an_unknown_option_is_refused_with_those_there_are():
    """By name, as an option of `process` is."""
    with pytest.raises(DeclarationTypeError, match=r"got \['backend'\]; choose from \['state_b"):
        KeyedProcessHarness(RunningTotal(), by_user, backend=HashMapStateBackend())


@pytest.mark.parametrize(
    "arguments",
    [
        {"function": RunningTotal},
        {"function": print},
        {"key_selector": "user"},
        {"state_backend": "heap"},
        {"state_backend": HashMapStateBackend},
        {"restore": 5},
        {"key_type": int},
        {"max_parallelism": "128"},
        {"max_parallelism": True},
    ],
    ids=str,
)
def test_an_argument_of_a_wrong_kind_is_refused(arguments):
    """When the harness is made."""
    with pytest.raises(DeclarationTypeError, match="got "):
        KeyedProcessHarness(**{"function": RunningTotal(), "key_selector": by_user, **arguments})


def test_there_is_at_least_one_key_group():
    """A max_parallelism of 0 is a bad value."""
    with pytest.raises(DeclarationValueError, match="at least 1, got 0"):
        harness(Probe(), max_parallelism=0)


@pytest.mark.parametrize("time", ["1", 1.5, True, dt.datetime(2024, 1, 1), 2**63, -(2**63) - 1])
@pytest.mark.parametrize("drive_by", ["element", "watermark", "processing time"])
def test_a_time_is_an_int_of_64_bits(time, drive_by):
    """Anything else is refused where it is given."""
    h = harness(Probe())
    call = {
        "element": lambda: h.process_element(Record("k", lambda _state, _ctx: None), time),
        "watermark": lambda: h.process_watermark(time),
        "processing time": lambda: h.set_processing_time(time),
    }[drive_by]
    with pytest.raises(StateValueError, match="must"):
        call()


@pytest.mark.parametrize("method", ["process_watermark", "set_processing_time"])
def test_a_time_to_set_is_not_none(method):
    """Only an element may have no time."""
    with pytest.raises(StateValueError, match="must be an int of ms, got None"):
        getattr(harness(Probe()), method)(None)


# Keys


def test_keys_of_different_types_are_different_keys():
    """1, 1.0 and True are three keys, as by their bytes in PyFlink, also after a restore."""
    state, keys = drive(LONG), [1, 1.0, True, "1", b"1"]
    for number, key in enumerate(keys):
        state.of(key).update(number)
    for each in (state, state.restored(LONG)):
        assert [0, 1, 2, 3, 4] == [each.of(key).value() for key in keys]
    assert 5 == state.entries()


@pytest.mark.parametrize(
    "key",
    ["a", "", 0, -1, 2**70, 1.5, True, b"x", dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3)],
    ids=repr,
)
def test_a_key_comes_back_as_it_was(key):
    """Of the same type, for elements and for timers, before and after a restore."""

    def key_of(_, ctx):
        ctx.timer_service().register_event_time_timer(1)
        return ctx.get_current_key()

    driver = drive()
    got = [driver.of(key).run(key_of)]
    got += [driver.restored().harness.process_watermark(1)[0][0]]
    assert [(type(key), key)] * 2 == [(type(each), each) for each in got]


def test_tuples_are_keys():
    """For several key columns; they differ by every element and its type."""
    state = drive(LONG)
    keys = [("a", 1), ("a", 2), ("a", 1.0), ("a",), ("a", None), (("a", 1),), ()]
    for number, key in enumerate(keys):
        state.of(key).update(number)
    assert list(range(7)) == [state.of(key).value() for key in keys]
    assert ("a", 1) == state.of(("a", 1)).run(lambda _, ctx: ctx.get_current_key())
