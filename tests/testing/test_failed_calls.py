# SPDX-License-Identifier: Apache-2.0
"""A harness of a dead letter's failure snapshot is in the state that the call began with, and calls again."""

from __future__ import annotations

import pickle
import struct
import zlib
from typing import Any, NamedTuple

import attrs
import pytest
from crafted_failure_snapshots import made_up

from pyflinklike import (
    DeadLetters,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.segments import read_segment
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    PyflinklikeError,
    StateAccessError,
)
from pyflinklike.stores import KeyValueStoreDescriptor, VersionedStoreDescriptor
from pyflinklike.testing import (
    BroadcastHarness,
    KeyedProcessHarness,
    KeyedTwoInputHarness,
)

DEAD = OutputTag("dead")


def letters_of(
    function: Any,
    steps: Any,
    harness: Any = KeyedProcessHarness,
    most: int = 65_536,
    **options: Any,
) -> list[Any]:
    """Take steps with a harness, and return its dead letters."""
    options.setdefault("key_selector", lambda row: row.user)
    on_error = DeadLetters(DEAD, at_most=100, per="batch", snapshot_bytes=most)
    with harness(function, on_error=on_error, **options) as driver:
        steps(driver)
        return driver.side_output(DEAD)


class Ratio(KeyedProcessFunction):
    """Divides by the amount; keeps amounts, counts them in a store, and fails in timers of 7."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.LONG(), Types.LONG())
        )
        self.counts = runtime_context.get_store(
            KeyValueStoreDescriptor("counts", Types.STRING(), Types.LONG(), scope="partition")
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        last, times = self.last.value(), self.seen.get(value.amount)
        self.last.update(value.amount)
        self.seen.put(value.amount, (times or 0) + 1)
        self.counts.put("all", self.counts.get("all", 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5)
        yield 100 / value.amount, last

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.last.clear()
        if timestamp == 7:
            raise LookupError(timestamp, ctx.time_domain().name)
        return []


def some_amounts(driver: Any) -> None:
    """Process amounts of two keys, a zero among them, and let a timer fail."""
    driver.set_processing_time(1_000)
    for at, (user, amount) in enumerate([("ann", 5), ("bob", 6), ("ann", 8), ("ann", 0)]):
        driver.process_element(Row(user=user, amount=amount), at)
    driver.process_watermark(20)


def test_the_harness_of_a_letter_has_the_state_the_timers_and_the_times_of_the_call():
    """Nothing of the call itself, nothing of the state of other keys; what all keys share is there."""
    element, timer = letters_of(Ratio(), some_amounts)
    with KeyedProcessHarness.of_failure(element.failure_snapshot, Ratio()) as first:
        assert (1_000, 1, 2, 2) == (
            first.processing_time,
            first.num_keyed_state_entries("last"),
            first.num_keyed_state_entries("seen"),
            first.num_event_time_timers(),
        )
        assert 3 == first.store("counts").get("all")
        assert [(12.5, 8)] == first.process_element(Row(user="other", amount=8), 5)
    with KeyedProcessHarness.of_failure(timer.failure_snapshot, Ratio()) as second:
        # The timer of 5 has fired, and that of 7 is the call's own.
        assert (20, 0, 2, 0) == (
            second.watermark,
            second.num_keyed_state_entries("last"),
            second.num_keyed_state_entries("seen"),
            second.num_event_time_timers(),
        )


class Mended(Ratio):
    """A ratio that knows zero."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield from (
            super().process_element(value, ctx) if value.amount else [("none", ctx.timestamp())]
        )


def test_a_mended_function_gives_its_outputs():
    """So the failure has become a unit test."""
    letter, _ = letters_of(Ratio(), some_amounts)
    with KeyedProcessHarness.of_failure(letter.failure_snapshot, Mended()) as harness:
        assert [("none", 3)] == harness.replay()


class Renamed(Ratio):
    """Has its state under another name."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.last = runtime_context.get_state(ValueStateDescriptor("former", Types.LONG()))


class Missing(KeyedProcessFunction):
    """Has none of the states."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        return None


class Retyped(Missing):
    """Has a state of another type."""

    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))


class Two(KeyedCoProcessFunction):
    """Fails in its second input where the first has come."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.seen.update(value.amount)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        if self.seen.value():
            raise OverflowError(self.seen.value() + value.amount)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Missing(), r"function that declares state '.*', got one with .*; give the function"),
        (Retyped(), r"state 'last': .* value type.*, 'Long', got 'String'"),
        (Two(), r"takes a function of one input, got Two of two inputs; .*KeyedProcessHarness"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(function, said):
    """With the rule, what was got, and the remedy; a further state fits."""
    letter, _ = letters_of(Ratio(), some_amounts)
    harness = KeyedTwoInputHarness if isinstance(function, Two) else KeyedProcessHarness
    with pytest.raises(IncompatibleStateError, match=said):
        harness.of_failure(letter.failure_snapshot, function)
    with KeyedProcessHarness.of_failure(letter.failure_snapshot, Renamed()) as other:
        assert 0 == other.num_keyed_state_entries("former")


def test_a_damaged_byte_anywhere_is_an_error_of_ours():
    """Any bit of it, and any part of it, and what is no failure snapshot at all."""
    letter, _ = letters_of(Ratio(), some_amounts)
    whole = letter.failure_snapshot
    cut = [whole[:length] for length in range(0, len(whole), 97)]
    flipped = [
        whole[:at] + bytes((whole[at] ^ 1 << at % 8,)) + whole[at + 1 :] for at in range(len(whole))
    ]
    for damaged in (*cut, *flipped):
        with pytest.raises(CorruptStateError, match="failure snapshot"):
            KeyedProcessHarness.of_failure(damaged, Ratio())
    with pytest.raises(DeclarationTypeError, match="got None; it is null if snapshot_bytes"):
        KeyedProcessHarness.of_failure(None, Ratio())
    KeyedProcessHarness.of_failure(bytearray(whole), Ratio()).close()


def test_a_failure_snapshot_that_someone_made_up_does_not_get_through():
    """With a checksum that is right, each byte of the body may be anything."""
    letter, _ = letters_of(Ratio(), some_amounts)
    whole = letter.failure_snapshot
    for at in range(45, len(whole), 23):
        body = bytearray(whole[45:])
        body[at - 45] ^= 0x55
        crc = zlib.crc32(bytes(body), zlib.crc32(whole[:41]))
        crafted = whole[:41] + struct.pack("<I", crc) + bytes(body)
        try:
            with KeyedProcessHarness.of_failure(crafted, Ratio()) as harness:
                harness.replay()
        except (PyflinklikeError, ZeroDivisionError, AttributeError, TypeError):
            pass  # an element may have become another one, on which the function fails otherwise


RAN: list[str] = []
"""What was run by unpickling."""


class Harmful:
    """Its pickle runs code."""

    def __reduce__(self) -> Any:
        return RAN.append, ("it ran",)


def test_a_form_of_an_element_that_nobody_writes_is_no_pickle():
    """Else a letter could run code where pickles are not allowed."""
    letter, _ = letters_of(Ratio(), some_amounts)
    harmful = made_up(letter.failure_snapshot, element=pickle.dumps(Harmful()), form="other")
    with pytest.raises(CorruptStateError, match=r"is one of .*, got 'other'; take another"):
        KeyedProcessHarness.of_failure(harmful, Ratio())
    assert [] == RAN


def test_a_pickle_is_found_wherever_a_failure_snapshot_may_have_one():
    """In the key, in the namespace of a timer, and in a state without entries."""
    _, timer = letters_of(Ratio(), some_amounts)
    pickles = Types.PICKLED_BYTE_ARRAY().signature
    segment = read_segment(timer.failure_snapshot, "failure_snapshot")
    (at,) = (at for at, each in segment.declarations.items() if each.name == "__pyflinklike.call")
    for key, namespace, what in (("", pickles, "namespace"), (pickles, "", "key")):
        segment.declarations[at] = attrs.evolve(
            segment.declarations[at], key=key, namespace=namespace
        )
        with pytest.raises(DeclarationValueError, match=f"got a pickle for the {what}; pass"):
            KeyedProcessHarness.of_failure(segment.to_bytes(), Ratio())
    (odd,) = letters_of(Keeping(), lambda driver: driver.process_elements([(Row(user=""), 1)]))
    with pytest.raises(DeclarationValueError, match="got a pickle for state 'odd'; pass"):
        KeyedProcessHarness.of_failure(odd.failure_snapshot, Keeping())


class Keeping(KeyedProcessFunction):
    """Has a pickle in its state, and fails when it finds it."""

    def open(self, runtime_context: Any) -> None:
        self.odd = runtime_context.get_state(
            ValueStateDescriptor("odd", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.odd.value() is not None or not value.user:
            raise LookupError(value)
        self.odd.update({value.user})
        return []


def test_beyond_the_bound_there_is_no_failure_snapshot():
    """A part of the state would give a replay that finds other timers or entries than the call."""

    def many(driver: Any) -> None:
        for amount in range(1, 2_000):
            driver.process_element(Row(user="ann", amount=amount), amount)
        driver.process_element(Row(user="ann", amount=0), 5_000)

    (whole,) = letters_of(Ratio(), many, most=200_000)
    size = len(whole.failure_snapshot)
    (exact,), (beyond,) = (letters_of(Ratio(), many, most=most) for most in (size, size - 1))
    assert (whole.failure_snapshot, None, "ZeroDivisionError") == (
        exact.failure_snapshot,
        beyond.failure_snapshot,
        beyond.error_class,
    )


class Versions(KeyedProcessFunction):
    """Keeps versions, of which None says that there is no value; fails with all that it finds."""

    def open(self, runtime_context: Any) -> None:
        self.versions = runtime_context.get_store(
            VersionedStoreDescriptor(
                "versions", Types.STRING(), Types.LONG(), history_retention=1_000
            )
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        if value.amount == 0:
            found = [self.versions.get("a", at) for at in (1, 2, 3)]
            raise OverflowError(repr(found), timers.list_event_time_timers())
        self.versions.put("a", None if value.amount < 0 else value.amount, ctx.timestamp())
        timers.register_event_time_timer(80 - ctx.timestamp())
        return []


def test_a_replay_finds_what_is_stored_as_nothing_and_each_timer():
    """A tombstone of a versioned store is an entry, and timers are told in their order."""

    def amounts(driver: Any) -> None:
        for at, amount in ((1, 5), (2, -1), (3, 7), (4, 0)):
            driver.process_element(Row(user="ann", amount=amount), at)

    (letter,) = letters_of(Versions(), amounts)
    with KeyedProcessHarness.of_failure(letter.failure_snapshot, Versions()) as harness:
        with pytest.raises(OverflowError) as raised:
            harness.replay()
        assert (letter.message, [77, 78, 79]) == (str(raised.value), raised.value.args[1])


class Odd:
    """An element that is no plain value."""

    user = "ann"
    amount = 0


class Payment(NamedTuple):
    """An element that is a row, and of a class of its own."""

    user: str
    amount: int


class Kind(Ratio):
    """Tells the class of an element."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ("Row" if isinstance(value, Row) else type(value).__name__), value.user


def test_pickles_are_read_only_where_that_is_allowed():
    """An element that is no plain value is one; an operator that may not unpickle writes none."""

    def odd(driver: Any) -> None:
        driver.process_element(Odd(), 1)

    (letter,) = letters_of(Ratio(), odd)
    with pytest.raises(
        DeclarationValueError, match="got a pickle for the element; pass allow_pickle"
    ):
        KeyedProcessHarness.of_failure(letter.failure_snapshot, Ratio())
    harness = KeyedProcessHarness.of_failure(letter.failure_snapshot, Ratio(), allow_pickle=True)
    with harness, pytest.raises(ZeroDivisionError):
        harness.replay()
    (letter,) = letters_of(Ratio(), odd, allow_pickle=False, key_type=Types.STRING())
    assert letter.failure_snapshot is None
    for allowed, kind in ((True, Payment), (False, Row)):
        (letter,) = letters_of(
            Ratio(),
            lambda driver: driver.process_element(Payment("ann", 0), 1),
            allow_pickle=allowed,
            key_type=Types.STRING(),
        )
        with KeyedProcessHarness.of_failure(
            letter.failure_snapshot, Kind(), allow_pickle=True
        ) as harness:
            assert [(kind.__name__, "ann")] == harness.replay()


def test_no_failure_snapshot_where_none_is_wanted():
    """With `snapshot_bytes=0`; nothing but an int from 0 on is taken."""
    assert [None, None] == [
        each.failure_snapshot for each in letters_of(Ratio(), some_amounts, most=0)
    ]
    with pytest.raises(
        DeclarationValueError, match="snapshot_bytes must be an int from 0 on, got -1"
    ):
        DeadLetters("dead", snapshot_bytes=-1)
    with pytest.raises(DeclarationTypeError, match="got True; 65536 is the default"):
        DeadLetters("dead", snapshot_bytes=True)


def test_a_call_of_the_second_input_is_replayed_as_one():
    """With its number, and the state that both inputs share."""
    on_error = DeadLetters(DEAD, 9, "batch")
    with KeyedTwoInputHarness(Two(), lambda row: row.user, on_error=on_error) as driver:
        driver.process_element1(Row(user="ann", amount=3))
        driver.process_both_watermarks(9)
        driver.process_element2(Row(user="ann", amount=4), 11)
        (letter,) = driver.side_output(DEAD)
    with KeyedTwoInputHarness.of_failure(letter.failure_snapshot, Two()) as harness:
        with pytest.raises(OverflowError, match="7"):
            harness.replay()
        assert (9, []) == (harness.watermark, harness.process_both_watermarks(8))


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
COUNT = ValueStateDescriptor("count", Types.LONG())


class Ruled(KeyedBroadcastProcessFunction):
    """Counts by rules; a negative rule fails behind a write and a look at all counts."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield value.user, ctx.get_broadcast_state(RULES).get("each") + self.count.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        name, number = value
        rules, found = ctx.get_broadcast_state(RULES), []
        before = dict(rules.items())
        rules.put(name, number)
        yield "rule", name
        if number < 0:
            ctx.apply_to_keyed_state(COUNT, lambda key, state: found.append((key, state.value())))
            raise ValueError(sorted(found), before)


class Looking(Ruled):
    """Looks at the counts where the call that failed did not."""

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.apply_to_keyed_state(COUNT, lambda key, state: None)
        return []


def test_a_broadcast_element_that_looked_at_no_key_has_none_in_its_failure_snapshot():
    """Else every key of the key group would be in it; a function that looks at keys is refused."""

    class Strict(Ruled):
        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            if value[1] < 0:
                raise ValueError(value)
            return super().process_broadcast_element(value, ctx)

    on_error = DeadLetters(DEAD, 9, "batch", snapshot_bytes=4_000)
    with BroadcastHarness(Strict(), [RULES], lambda row: row.user, on_error=on_error) as driver:
        driver.process_broadcast_element(("each", 5))
        for number in range(1_000):
            driver.process_element(Row(user=number))
        driver.process_broadcast_element(("each", -5))
        (letter,) = driver.side_output(DEAD)
    with (
        BroadcastHarness.of_failure(letter.failure_snapshot, Strict(), [RULES]) as harness,
        pytest.raises(ValueError, match="each"),
    ):
        harness.replay()
    with (
        BroadcastHarness.of_failure(letter.failure_snapshot, Looking(), [RULES]) as harness,
        pytest.raises(
            StateAccessError, match=r"failed read no keys, got a call of apply_to_keyed_st"
        ),
    ):
        harness.replay()


def test_calls_of_a_function_with_a_broadcast_input_are_replayed_too():
    """An element finds the rules; one of the broadcast input finds the keys that it looked at.

    What it has written and put out is undone, and its letter has no key.
    """
    on_error = DeadLetters(DEAD, 9, "batch")
    with BroadcastHarness(Ruled(), [RULES], lambda row: row.user, on_error=on_error) as driver:
        driver.process_element(Row(user="ann"))
        driver.process_broadcast_element(("each", 5))
        for user in ("ann", "bob", "bob"):
            driver.process_element(Row(user=user))
        driver.process_broadcast_element(("each", -5))
        driver.process_element(Row(user="bob"))
        element, broadcast = driver.side_output(DEAD)
        assert [("rule", "each"), ("ann", 6), ("bob", 6), ("bob", 7), ("bob", 8)] == driver.output
        assert [
            ("ann", "process_element", "TypeError"),
            (None, "process_broadcast_element", "ValueError"),
        ] == [(each.key, each.call, each.error_class) for each in (element, broadcast)]
    with BroadcastHarness.of_failure(element.failure_snapshot, Ruled(), [RULES]) as harness:
        with pytest.raises(TypeError):
            harness.replay()
        assert [] == list(harness.get_broadcast_state(RULES).keys())
    with BroadcastHarness.of_failure(broadcast.failure_snapshot, Ruled(), [RULES]) as harness:
        with pytest.raises(ValueError, match="ann") as raised:
            harness.replay()
        assert ([("ann", 1), ("bob", 2)], {"each": 5}) == raised.value.args


def test_a_harness_of_something_else_has_nothing_to_replay():
    """It says how one is made."""
    with (
        KeyedProcessHarness(Ratio(), lambda row: row.user) as harness,
        pytest.raises(
            StateAccessError, match=r"is for a harness of KeyedProcessHarness.of_failure"
        ),
    ):
        harness.replay()
