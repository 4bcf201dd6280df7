# SPDX-License-Identifier: Apache-2.0
import datetime as dt

import pytest
from probe import Driver, Probe, Record, Sum, drive, harness

from pyflinklike import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    AggregatingStateDescriptor,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    StateAccessError,
    StateValueError,
)
from pyflinklike.testing import KeyedProcessHarness

LONG = ValueStateDescriptor("s", Types.LONG())


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


class Closing(Probe):
    """Counts how often it was closed."""

    closed = 0

    def close(self):
        self.closed += 1


def by_user(row):
    """The key of an element."""
    return row.user


def kept_states(*descriptors):
    """A function with its states, and a harness that had one element."""
    probe = Probe(*descriptors)
    driver = Driver(harness(probe))
    driver.run(lambda _state, _ctx: None)
    return probe, driver.harness


# Driving


def test_the_documentations_example_runs():
    """Elements, watermarks and what they put out [DESIGN 7]."""
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


def test_a_harness_begins_at_the_beginning():
    """Processing time 0, no watermark, no output, no timers [DESIGN 7]."""
    h = harness(Probe())
    assert (0, MIN_WATERMARK, []) == (h.processing_time, h.watermark, h.output)
    assert (0, 0) == (h.num_event_time_timers(), h.num_processing_time_timers())


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
    """By name or by index [DESIGN 7]."""
    h = KeyedProcessHarness(RunningTotal(), key_selector=selector)
    assert [("a", 1)] == h.process_element(Row(user="a", amount=1), 0)


def test_a_function_knows_where_it_runs():
    """One instance with 128 key groups, and the parameters it was given [1.4, 2.9]."""
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


def test_entries_of_states_of_one_value_are_counted_by_key():
    """Over all keys: one per key for value, reducing and aggregating state [DESIGN 7]."""
    driver = drive(
        LONG,
        ReducingStateDescriptor("r", max, Types.LONG()),
        AggregatingStateDescriptor("a", Sum(), Types.LONG()),
    )
    for key in "xyz":
        driver.of(key).run(lambda s, _: (s[0].update(1), s[1].add(1), s[1].add(2), s[2].add(1)))
    assert [3, 3, 3] == [driver.entries(name) for name in "sra"]


def test_entries_of_an_unknown_state_are_not_counted():
    """The declared ones are named."""
    with pytest.raises(StateAccessError, match=r"no state 'x' is declared, got only \['s'\]"):
        drive(LONG).entries("x")


# Arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"function": RunningTotal},
        {"function": print},
        {"key_selector": "user"},
        {"state_backend": "heap"},
        {"state_backend": HashMapStateBackend},
        {"restore": "text"},
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


# Closing


def test_the_with_block_closes_the_function_once():
    """Closing again does nothing [DESIGN 7]."""
    probe = Closing()
    with harness(probe) as h:
        assert 0 == probe.closed
    h.close()
    assert 1 == probe.closed


def test_the_with_block_is_optional():
    """close() does the same [DESIGN 7]."""
    probe = Closing()
    harness(probe).close()
    assert 1 == probe.closed


@pytest.mark.parametrize(
    "use",
    [
        lambda h: h.process_element(Record("k", None)),
        lambda h: h.process_watermark(1),
        lambda h: h.set_processing_time(1),
        lambda h: h.end_of_input(),
        lambda h: h.compact(),
        lambda h: h.snapshot(),
        lambda h: h.num_keyed_state_entries("s"),
        lambda h: h.num_event_time_timers(),
        lambda h: h.num_processing_time_timers(),
    ],
)
def test_a_closed_harness_cannot_be_driven(use):
    """Nor can its state be looked at [DESIGN 9]."""
    h = harness(Probe(LONG))
    h.close()
    with pytest.raises(StateAccessError, match=r"got a call after close\(\)"):
        use(h)


def test_the_output_of_a_closed_harness_can_be_read():
    """A test may look at it after the with block."""
    with harness(Probe()) as h:
        h.process_element(Record("k", lambda _state, _ctx: 1))
    assert [1] == h.output


# Access without a key

TOUCHES = {
    "value": (LONG, lambda s: s.value()),
    "update": (LONG, lambda s: s.update(1)),
    "update None": (LONG, lambda s: s.update(None)),
    "clear": (LONG, lambda s: s.clear()),
    "list get": (ListStateDescriptor("s", Types.LONG()), lambda s: list(s.get())),
    "list add": (ListStateDescriptor("s", Types.LONG()), lambda s: s.add(1)),
    "list update": (ListStateDescriptor("s", Types.LONG()), lambda s: s.update([1])),
    "map get": (MapStateDescriptor("s", Types.LONG(), Types.LONG()), lambda s: s.get(1)),
    "map put": (MapStateDescriptor("s", Types.LONG(), Types.LONG()), lambda s: s.put(1, 1)),
    "map items": (MapStateDescriptor("s", Types.LONG(), Types.LONG()), lambda s: list(s.items())),
    "map is_empty": (
        MapStateDescriptor("s", Types.LONG(), Types.LONG()),
        lambda s: s.is_empty(),
    ),
    "map remove": (MapStateDescriptor("s", Types.LONG(), Types.LONG()), lambda s: s.remove(1)),
    "reducing get": (ReducingStateDescriptor("s", max, Types.LONG()), lambda s: s.get()),
    "reducing add": (ReducingStateDescriptor("s", max, Types.LONG()), lambda s: s.add(1)),
    "aggregating get": (AggregatingStateDescriptor("s", Sum(), Types.LONG()), lambda s: s.get()),
    "aggregating add": (AggregatingStateDescriptor("s", Sum(), Types.LONG()), lambda s: s.add(1)),
}
touches = pytest.mark.parametrize(("descriptor", "touch"), TOUCHES.values(), ids=TOUCHES)


@touches
def test_state_cannot_be_touched_in_open(descriptor, touch):
    """There is no key yet [2.5, DESIGN 9]."""

    class Touches(Probe):
        def open(self, runtime_context):
            super().open(runtime_context)
            touch(self.state)

    with pytest.raises(StateAccessError, match="no current key"):
        harness(Touches(descriptor))


@touches
def test_state_cannot_be_touched_between_calls(descriptor, touch):
    """The key of the last element is not that of the next [DESIGN 9]."""
    probe, _ = kept_states(descriptor)
    with pytest.raises(StateAccessError, match="no current key"):
        touch(probe.state)


@touches
def test_state_cannot_be_touched_after_close(descriptor, touch):
    """It is gone [DESIGN 9]."""
    probe, h = kept_states(descriptor)
    h.close()
    with pytest.raises(StateAccessError, match="no current key"):
        touch(probe.state)


def test_a_context_has_no_key_between_calls():
    """It belongs to the call it was handed to."""
    kept = []
    drive().run(lambda _, ctx: kept.append(ctx))
    with pytest.raises(StateAccessError, match="there is a current key only while"):
        kept[0].get_current_key()


# Keys


def test_keys_of_different_types_are_different_keys():
    """1, 1.0 and True are three keys, as by their bytes in PyFlink [1.5, 2.12, DESIGN 9]."""
    state = drive(LONG)
    for number, key in enumerate([1, 1.0, True, "1", b"1"]):
        state.of(key).update(number)
    assert [0, 1, 2, 3, 4] == [state.of(key).value() for key in [1, 1.0, True, "1", b"1"]]
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
    """For several key columns; they differ by every element and its type [DESIGN 7]."""
    state = drive(LONG)
    keys = [("a", 1), ("a", 2), ("a", 1.0), ("a",), ("a", None), (("a", 1),), ()]
    for number, key in enumerate(keys):
        state.of(key).update(number)
    assert list(range(7)) == [state.of(key).value() for key in keys]
    assert ("a", 1) == state.of(("a", 1)).run(lambda _, ctx: ctx.get_current_key())


@pytest.mark.parametrize("key", [1, 1.0, True], ids=repr)
def test_a_key_is_found_again_after_a_restore(key):
    """By its type and value."""
    state = drive(LONG)
    state.of(key).update(7)
    again = state.restored(LONG)
    found = [again.of(other).value() for other in (1, 1.0, True)]
    assert [7 if type(other) is type(key) else None for other in (1, 1.0, True)] == found


# Snapshot and restore

EVERY_KIND = (
    LONG,
    ListStateDescriptor("l", Types.STRING()),
    MapStateDescriptor("m", Types.STRING(), Types.LONG()),
    ReducingStateDescriptor("r", max, Types.LONG()),
    AggregatingStateDescriptor("a", Sum(), Types.LONG()),
)


def fill(states, _):
    """Write to a state of every kind."""
    value, list_, map_, reducing, aggregating = states
    value.update(1)
    list_.add_all(["x", "y"])
    map_.put_all({"b": 2, "a": 1})
    for number in (3, 4):
        reducing.add(number)
        aggregating.add(number)


def contents(states, _):
    """What is in a state of every kind."""
    value, list_, map_, reducing, aggregating = states
    read = value.value(), list(list_.get()), list(map_.items())
    return *read, reducing.get(), aggregating.get()


FILLED = (1, ["x", "y"], [("b", 2), ("a", 1)], 4, 7)


def ttl(milliseconds, *, relaxed=False):
    """A value state with that TTL, without background cleanup."""
    descriptor = ValueStateDescriptor("s", Types.LONG())
    builder = StateTtlConfig.new_builder(milliseconds).disable_cleanup_in_background()
    if relaxed:
        builder.return_expired_if_not_cleaned_up()
    descriptor.enable_time_to_live(builder.build())
    return descriptor


def test_every_kind_of_state_is_restored():
    """For each key, in order."""
    driver = drive(*EVERY_KIND)
    driver.run(fill)
    driver.of("b").run(lambda states, _: states[0].update(2))
    again = driver.restored(*EVERY_KIND)
    assert FILLED == again.run(contents)
    assert (2, [], [], None, None) == again.of("b").run(contents)


def test_a_restored_state_goes_on_as_the_original():
    """Elements are appended, folded and overwritten."""
    driver = drive(*EVERY_KIND)
    driver.run(fill)
    again = driver.restored(*EVERY_KIND)
    again.run(fill)
    driver.run(fill)
    assert driver.run(contents) == again.run(contents)


def test_a_snapshot_changes_nothing():
    """It can be taken at any time, and again."""
    driver = drive(*EVERY_KIND)
    driver.run(fill)
    driver.harness.snapshot()
    assert FILLED == driver.run(contents)
    assert FILLED == driver.restored(*EVERY_KIND).run(contents)


def test_a_snapshot_is_not_changed_by_what_follows():
    """It is as of its call."""
    state = drive(LONG)
    state.update(1)
    blob = state.harness.snapshot()
    state.update(2)
    assert isinstance(blob, bytes)
    assert 1 == drive(LONG, restore=blob).value()


def test_one_snapshot_can_be_restored_twice():
    """The two go their own ways."""
    state = drive(LONG)
    state.update(1)
    blob = state.harness.snapshot()
    first, second = drive(LONG, restore=blob), drive(LONG, restore=blob)
    first.update(2)
    assert (2, 1) == (first.value(), second.value())


def test_an_empty_harness_can_be_restored():
    """From a snapshot of nothing."""
    assert None is drive(LONG).restored(LONG).value()


def test_a_restored_harness_begins_at_the_beginning():
    """Time and outputs are not in a snapshot [DESIGN 7]."""
    driver = drive(LONG).at(50).at_watermark(60)
    driver.update(1)
    again = driver.restored(LONG).harness
    assert (0, MIN_WATERMARK, []) == (again.processing_time, again.watermark, again.output)


def test_what_was_cleared_is_not_restored():
    """Nor what was removed."""
    driver = drive(*EVERY_KIND)
    driver.run(fill)
    driver = driver.restored(*EVERY_KIND)
    driver.run(lambda states, _: [state.clear() for state in states] and None)
    assert (None, [], [], None, None) == driver.restored(*EVERY_KIND).run(contents)


def test_a_snapshot_is_restored_into_another_max_parallelism():
    """Keys are hashed anew [DESIGN 7]."""
    state = drive(LONG, max_parallelism=4)
    state.update(1)
    assert 1 == state.restored(LONG, max_parallelism=64).value()


def test_a_state_that_is_not_declared_is_kept():
    """It comes back when it is declared again."""
    driver = drive(*EVERY_KIND)
    driver.run(fill)
    without = driver.restored(LONG)
    assert FILLED == without.restored(*EVERY_KIND).run(contents)


def test_a_state_declared_late_is_restored():
    """In process_element [2.5]."""
    state = drive(LONG)
    state.update(1)
    probe = Probe()
    again = Driver(harness(probe, restore=state.harness.snapshot()))
    assert 1 == again.run(lambda _state, _ctx: probe.runtime_context.get_state(LONG).value())


@pytest.mark.parametrize(
    "other",
    [
        ValueStateDescriptor("s", Types.STRING()),
        ListStateDescriptor("s", Types.LONG()),
        ReducingStateDescriptor("s", max, Types.LONG()),
    ],
    ids=["type", "shape", "kind"],
)
def test_a_state_declared_otherwise_is_not_restored(other):
    """With what was stored and what was declared in the message [2.5]."""
    state = drive(LONG)
    state.update(1)
    with pytest.raises(IncompatibleStateError, match="state 's': restored state keeps"):
        state.restored(other)


@pytest.mark.parametrize("blob", [b"", b"not a snapshot"], ids=["empty", "other"])
def test_other_bytes_are_not_restored(blob):
    """A clear error and no silent reset [DESIGN 4]."""
    with pytest.raises(CorruptStateError):
        drive(LONG, restore=blob)


@pytest.mark.parametrize("at", [5, 40, -1], ids=["head", "middle", "end"])
def test_damaged_bytes_are_not_restored(at):
    """Wherever the damage is [DESIGN 4]."""
    state = drive(LONG)
    state.update(1)
    blob = bytearray(state.harness.snapshot())
    blob[at] ^= 0xFF
    with pytest.raises(CorruptStateError):
        drive(LONG, restore=bytes(blob))


# TTL and restore


def test_a_restored_entry_is_judged_by_the_current_time():
    """Written at 50 and at 100, read at 180 with a TTL of 100 [2.11]."""
    state = drive(ttl(100)).at(50)
    state.of("k1").update(1)
    state.at(100).of("k2").update(2)
    again = state.restored(ttl(100)).at(180)
    assert (None, 2) == (again.of("k1").value(), again.of("k2").value())


def test_an_entry_that_expired_before_the_snapshot_is_restored_as_expired():
    """A relaxed read still gives it once [2.11]."""
    state = drive(ttl(100, relaxed=True))
    state.update(1)
    again = state.at(500).restored(ttl(100, relaxed=True)).at(500)
    assert (1, None) == (again.value(), again.value())


@pytest.mark.parametrize(("milliseconds", "alive"), [(50, None), (200, 1)])
def test_a_changed_ttl_judges_the_stored_stamp(milliseconds, alive):
    """A longer one may bring back what had expired [2.10]."""
    state = drive(ttl(100))
    state.update(1)
    assert alive == state.restored(ttl(milliseconds)).at(150).value()
    assert None is state.restored(ttl(milliseconds)).at(200).value()


def test_a_ttl_switched_on_begins_at_the_restore():
    """The harness restores at 0, whenever the entry was written [2.10, DESIGN 9]."""
    state = drive(LONG).at(10_000)
    state.update(1)
    again = state.restored(ttl(100))
    assert 1 == again.at(99).value()
    assert None is again.at(100).value()


def test_a_ttl_switched_on_for_a_state_declared_late_begins_at_its_restore():
    """The time of the migration is that of its first declaration [2.10]."""
    state = drive(LONG)
    state.update(1)
    probe = Probe()
    again = Driver(harness(probe, restore=state.harness.snapshot())).at(50)

    def value(_state, _ctx):
        return probe.runtime_context.get_state(ttl(100)).value()

    assert (1, 1) == (again.run(value), again.at(149).run(value))
    assert None is again.at(150).run(value)


def test_a_ttl_switched_off_makes_all_that_is_stored_permanent():
    """What had expired, too [2.10]."""
    state = drive(ttl(100))
    state.update(1)
    again = state.at(500).restored(LONG)
    assert 1 == again.at(10**12).value()


def test_a_ttl_switched_off_and_on_begins_anew():
    """The old stamp was dropped [2.10]."""
    state = drive(ttl(100)).at(10_000)
    state.update(1)
    again = state.restored(LONG).restored(ttl(100))
    assert 1 == again.at(99).value()
    assert None is again.at(100).value()


def test_a_restore_is_no_access():
    """It renews no stamp [2.10]."""
    state = drive(ttl(100))
    state.update(1)
    again = state.at(50).restored(ttl(100)).at(50).restored(ttl(100))
    assert None is again.at(100).value()


def test_the_cleanup_strategy_may_change_at_a_restore():
    """At any time [2.10]."""
    state = drive(ttl(100))
    state.update(1)
    other = ValueStateDescriptor("s", Types.LONG())
    other.enable_time_to_live(
        StateTtlConfig.new_builder(100).cleanup_incrementally(5, True).build()
    )
    assert 1 == state.restored(other).at(99).value()


@pytest.mark.parametrize("switched_on", [False, True], ids=["off to off", "off to on"])
def test_lists_and_maps_keep_their_order_through_a_restore(switched_on):
    """With and without stamps."""
    config = StateTtlConfig.new_builder(100).build() if switched_on else None
    descriptors = [
        ListStateDescriptor("l", Types.LONG()),
        MapStateDescriptor("m", Types.LONG(), Types.LONG()),
    ]
    driver = drive(*descriptors)
    driver.run(lambda s, _: (s[0].update([3, 1, 2]), s[1].put_all({3: 0, 1: 0, 2: 0})))
    for descriptor in descriptors:
        descriptor.enable_time_to_live(config)
    again = driver.restored(*descriptors)
    assert ([3, 1, 2], [3, 1, 2]) == again.run(lambda s, _: (list(s[0]), list(s[1])))
