# SPDX-License-Identifier: Apache-2.0
"""The window store against a dict, with the rules of expiry written a second time."""

# ruff: noqa: B023 - what is defined in a loop here is called at once

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from store_functions import law_of_each_backend, times
from store_support import LIFE, Player, sequences

from pyflinklike import MIN_WATERMARK, Types
from pyflinklike.stores import WindowStoreDescriptor

SIZE, RETENTION = 10, 40
KEYS = ["a", "a\x00", "aa", "b"]
TIMES = times(-30, 80)
BOUND = st.none() | TIMES


class Model:
    """Windows as a dict, and the stream time; one for all current keys."""

    def __init__(self, scope, stream_time, *, duplicates):
        self.scope, self.mode, self.duplicates = scope, stream_time, duplicates
        self.windows = {}  # (owner, key, start) -> [values]
        self.times = {}  # owner of the time -> stream time
        self.watermark = None

    def owner(self, current):
        """Whose windows: the current key's, or those of all."""
        return current if self.scope == "key" else None

    def now(self, current):
        """The stream time that judges."""
        if self.mode == "watermark":
            return self.watermark
        return self.times.get(current if self.mode == "key" else None)

    def expired(self, current, start):
        """Whether a window with this start is."""
        now = self.now(current)
        return now is not None and start <= now - RETENTION

    def put(self, current, key, value, start):
        """None deletes; what is late is dropped; whether it was in time."""
        if self.mode != "watermark":
            clock = current if self.mode == "key" else None
            self.times[clock] = max(start, self.times.get(clock, start))
        if self.expired(current, start):
            return False
        at = (self.owner(current), key, start)
        if self.duplicates:
            if value is not None:
                self.windows.setdefault(at, []).append(value)
        elif value is None:
            self.windows.pop(at, None)
        else:
            self.windows[at] = [value]
        return True

    def find(self, current, key_from, key_to, time_from, time_to):
        """What may be shown: (key, start, value), by key and start."""
        return [
            (key, start, value)
            for (owner, key, start), values in sorted(
                self.windows.items(), key=lambda item: item[0][1:]
            )
            for value in values
            if owner == self.owner(current)
            and (key_from is None or key_from <= key)
            and (key_to is None or key <= key_to)
            and (time_from is None or time_from <= start)
            and (time_to is None or start <= time_to)
            and not self.expired(current, start)
        ]


STEPS = sequences(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.none() | st.integers(0, 3), TIMES),
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 3), TIMES),
        st.tuples(st.just("get"), st.sampled_from(KEYS), TIMES),
        st.tuples(st.just("fetch"), st.sampled_from(KEYS), BOUND, BOUND, st.booleans()),
        st.tuples(
            st.just("range"),
            st.none() | st.sampled_from(KEYS),
            st.none() | st.sampled_from(KEYS),
            BOUND,
            BOUND,
            st.booleans(),
        ),
        st.tuples(st.just("live"), LIFE),
        st.tuples(st.just("watermark"), TIMES),
    )
)
MODES = st.sampled_from(
    [
        ("key", None),
        ("key", "key"),
        ("key", "partition"),
        ("key", "watermark"),
        ("partition", None),
        ("partition", "watermark"),
    ]
)


def by_key(found):
    """What is promised of the order over several keys: by time within each key."""
    ordered = {}
    for key, *rest in found:
        ordered.setdefault(key, []).append(tuple(rest))
    return ordered


@law_of_each_backend
@given(steps=STEPS, mode=MODES, duplicates=st.booleans())
def test_a_window_store_is_a_dict_with_expiry(steps, mode, duplicates, backend):
    """Through any writes, reads, commits, losses and restarts, in every mode of stream time."""
    scope, stream_time = mode
    descriptor = WindowStoreDescriptor(
        "w",
        Types.STRING(),
        Types.LONG(),
        window_size=SIZE,
        retention=RETENTION,
        retain_duplicates=duplicates,
        scope=scope,
        stream_time=stream_time,
    )
    player = Player(descriptor, backend)
    model = Model(scope, stream_time or scope, duplicates=duplicates)
    dropped = 0
    for number, (verb, *arguments) in enumerate(steps):
        current = "xy"[number % 2]
        if verb == "live":
            player.live(*arguments)
            if arguments[0] in ("restart", "move"):
                dropped = 0
        elif verb == "watermark":
            model.watermark = max(
                arguments[0], MIN_WATERMARK if model.watermark is None else model.watermark
            )
            player.watermark(model.watermark)
        elif verb == "put":
            key, value, start = arguments
            dropped += not model.put(current, key, value, start)
            player.do(lambda store: store.put(key, value, start), current)
            assert dropped == player.do(lambda store: store.dropped_records, current)
            assert model.now(current) == player.do(
                lambda store: store.observed_stream_time, current
            )
        elif verb == "get":
            if not duplicates:
                key, start = arguments
                found = model.find(current, key, key, start, start)
                expected = found[0][2] if found else "none"
                assert expected == player.do(
                    lambda store: store.get(key, start, "none"),
                    current,
                )
        elif verb == "fetch":
            key, begin, end, reverse = arguments
            expected = [found[1:] for found in model.find(current, key, key, begin, end)]
            actual = player.do(
                lambda store: list(store.fetch(key, begin, end, reverse=reverse)),
                current,
            )
            assert (expected[::-1] if reverse else expected) == actual
        else:
            *bounds, reverse = arguments
            expected = by_key(model.find(current, *bounds))
            actual = player.do(
                lambda store: list(store.fetch_range(*bounds, reverse=reverse)),
                current,
            )
            assert all(each.end == each.start + SIZE for each in actual)
            actual = [(each.key, each.start, each.value) for each in actual]
            assert expected == by_key(actual[::-1] if reverse else actual), number
    alive = sum(len(model.find(current, None, None, None, None)) for current in "xy")
    player.operator.cleanup.drop_expired()
    assert (alive if scope == "key" else alive // 2) == player.count()
    player.close()
