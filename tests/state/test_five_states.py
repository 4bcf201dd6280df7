# SPDX-License-Identifier: Apache-2.0
"""The five kinds of state by their rules: what is written, read, expired, stored and restored.

The rules are those of `agreement.model`, which the machine plays on whole workers.  Here each method
of a state is a record of its own, in the harness.
"""

from __future__ import annotations

from typing import Any

import pytest
from agreement.model import Model
from hypothesis import given, settings
from hypothesis import strategies as st
from probe import drive
from ttl_support import CORNER_IDS, CORNERS, READ_WRITE, RELAXED, builder, call

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)

TTL = 100


class Concatenate(AggregateFunction):
    """Texts in their order, in an accumulator that is changed in place and is no result."""

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: str, accumulator: list[str]) -> list[str]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[str]) -> str:
        return "".join(accumulator)

    def merge(self, acc_a: list[str], acc_b: list[str]) -> list[str]:
        return acc_a + acc_b


TEXT = Types.STRING()
DECLARED = {
    "value": lambda: ValueStateDescriptor("s", TEXT),
    "list": lambda: ListStateDescriptor("s", TEXT),
    "map": lambda: MapStateDescriptor("s", TEXT, TEXT),
    "reducing": lambda: ReducingStateDescriptor("s", lambda a, b: a + b, TEXT),
    "aggregating": lambda: AggregatingStateDescriptor("s", Concatenate(), Types.LIST(TEXT)),
}
texts = st.sampled_from(["", "p", "q"])
user_keys = st.sampled_from(["x", "yz"])
some_texts = st.lists(texts, max_size=2)
some_items = st.dictionaries(user_keys, st.none() | texts)


def _calls(*methods: str, **arguments: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.sampled_from(methods), *arguments.values())


adds = _calls("add", value=texts)
CALLS = {
    "value": [_calls("update", value=st.none() | texts), _calls("value"), _calls("clear")],
    "list": [
        adds,
        _calls("add_all", "update", values=some_texts),
        _calls("get", "__iter__"),
        _calls("clear"),
    ],
    "map": [
        _calls("put", "__setitem__", key=user_keys, value=st.none() | texts),
        _calls("put_all", items=some_items | some_items.map(lambda items: [*items.items()])),
        _calls("remove", "__delitem__", key=user_keys),
        _calls("get", "contains", "__getitem__", "__contains__", key=user_keys),
        _calls("items", "keys", "values", "__iter__", "is_empty", "clear"),
    ],
    "reducing": [adds, _calls("get"), _calls("clear")],
    "aggregating": [adds, _calls("get"), _calls("clear")],
}


class Rules:
    """What a state of one kind must give, for each call.

    Args:
        kind: The kind, as in `DECLARED`.
        model: The contents.
    """

    def __init__(self, kind: str, model: Model) -> None:
        self.kind, self.model = kind, model

    def call(self, key: str, method: str, *arguments: Any) -> Any:
        """Make a call for a key, and return what it gives."""
        if method == "clear":
            self.model.single.pop((self.kind, key), None)
            self.model.lists[key], self.model.maps[key] = [], {}
            return None
        if self.kind == "map":
            return self._call_map(self.model.maps[key], method, *arguments)
        if self.kind == "list":
            return self._call_list(key, method, *arguments)
        at, now = (self.kind, key), self.model.now
        if method == "update":
            self.model.single[at] = (now, arguments[0])
            if arguments[0] is None:
                del self.model.single[at]
            return None
        former = self.model.read(self.model.single, at)
        if method == "add":
            self.model.single[at] = (now, "".join([*former, *arguments]))
            return None
        return former[0] if former else None

    def _call_list(self, key: str, method: str, *arguments: Any) -> Any:
        if method in ("get", "__iter__"):
            return self.model.read_list(key)
        elements = list(arguments) if method == "add" else arguments[0]
        kept = [] if method == "update" else self.model.lists[key]
        self.model.lists[key] = [*kept, *((self.model.now, each) for each in elements)]
        return None

    def _call_map(self, entries: dict[str, Any], method: str, *arguments: Any) -> Any:
        if method in ("put", "__setitem__"):
            entries[arguments[0]] = (self.model.now, arguments[1])
        elif method == "put_all":
            entries.update(
                {key: (self.model.now, each) for key, each in dict(arguments[0]).items()}
            )
        elif method in ("remove", "__delitem__"):
            entries.pop(arguments[0], None)
        elif method == "is_empty":  # it looks at no stamp
            return not entries
        elif arguments:
            found = self.model.read(entries, arguments[0])
            return bool(found) if "contains" in method else found[0] if found else None
        else:
            all_of_them = [(key, self.model.read(entries, key)) for key in list(entries)]
            items = [(key, found[0]) for key, found in all_of_them if found]
            keys, values = [key for key, _ in items], [each for _, each in items]
            return {"items": items, "values": values}.get(method, keys)
        return None


moves = st.sampled_from([1, 39, 60, 60, 99, 100, -50])
life = st.sampled_from(["restore", "end the batch"])


def histories(kind: str) -> st.SearchStrategy[list[Any]]:
    """Draw calls under two keys, steps in time, and ends of batches."""
    calls = st.tuples(st.sampled_from("aab"), st.one_of(CALLS[kind]))
    return st.lists(st.one_of(calls, calls, calls, moves, life), min_size=6, max_size=24)


def play(kind: str, corner: Any, history: list[Any]) -> None:
    """Compare a state with its rules, after each step of a history."""
    descriptor, model = DECLARED[kind](), Model()
    if corner is not None:
        config = builder(corner, TTL).disable_cleanup_in_background().build()
        descriptor.enable_time_to_live(config)
        model = Model(TTL, corner[0] is READ_WRITE, corner[1] is RELAXED)
    state, rules = drive(descriptor), Rules(kind, model)
    for step in history:
        if isinstance(step, int):
            model.now += step
            state.at(model.now)
        elif step == "restore":
            state = state.restored(descriptor).at(model.now)
        elif isinstance(step, str):
            state.harness.end_batch()
        else:
            key, operation = step
            assert rules.call(key, *operation) == call(state.of(key), operation), step
        assert sum(model.counts().values()) == state.entries(), step


@pytest.mark.parametrize("corner", [None, *CORNERS], ids=["none", *CORNER_IDS])
@pytest.mark.parametrize("kind", DECLARED)
@settings(max_examples=settings().max_examples // 3)
@given(data=st.data())
def test_a_state_gives_what_its_rules_say(kind, corner, data):
    """By every method, without a TTL and with one in each corner, at its boundary and around it."""
    play(kind, corner, data.draw(histories(kind)))


READS = {
    "value": [("value",)],
    "list": [("get",), ("__iter__",)],
    "map": [
        *((name, "x") for name in ("get", "contains", "__getitem__", "__contains__")),
        *((name,) for name in ("items", "keys", "values", "__iter__", "is_empty")),
    ],
    "reducing": [("get",)],
    "aggregating": [("get",)],
}
WRITES = {
    "value": [("update", "q"), ("update", None)],
    "list": [("add", "q"), ("add_all", ["q", "r"]), ("update", ["q"]), ("update", [])],
    "map": [
        *((name, "x", "q") for name in ("put", "__setitem__")),
        *((name, "x") for name in ("remove", "__delitem__")),
        ("put_all", {"x": "q", "y": "r"}),
        ("put_all", {}),
    ],
    "reducing": [("add", "q")],
    "aggregating": [("add", "q")],
}
FIRST = {"value": ("update", "p"), "map": ("put_all", {"x": "p", "w": "o"})}


@pytest.mark.parametrize("corner", CORNERS, ids=CORNER_IDS)
@pytest.mark.parametrize("kind", DECLARED)
@pytest.mark.parametrize("time", [99, 100], ids=["alive", "expired"])
def test_each_call_before_and_at_the_end_of_a_ttl(kind, corner, time):
    """And each read in the last millisecond of what that call has left, and behind it."""
    for middle in [*READS[kind], *WRITES[kind], ("clear",)]:
        for last in READS[kind]:
            for later in (0, 99, 100):
                step = FIRST.get(kind, ("add", "p"))
                history: list[Any] = [("a", step), ("b", step), time, ("a", middle), later]
                play(kind, corner, [*history, ("a", last), ("b", last)])
