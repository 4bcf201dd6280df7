# SPDX-License-Identifier: Apache-2.0
"""Every backend of `UpsertState` against a dict."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from index_support import needs_rocksdict, rocksdb

from pyflinklike.upsert import FinalizedValue, PutValue, Tombstone, UpsertState
from pyflinklike.upsert.upsert_state import _Entries

KEYS = st.sampled_from(["a", "b", ("a", 1)])
VALUES = st.integers(0, 3) | st.text(max_size=9)
SOMETIMES = st.sampled_from([True, False, False])
OPTIONAL = st.tuples(SOMETIMES, VALUES).map(lambda drawn: None if drawn[0] else drawn[1])
PUTS = st.lists(st.tuples(KEYS, OPTIONAL, st.none() | st.integers(0, 300)), min_size=1, max_size=4)
CHANGES = st.lists(st.tuples(KEYS, OPTIONAL), min_size=1, max_size=5)
COLLECTING = st.tuples(st.just("change"), CHANGES) | st.tuples(st.just("restore"), st.none())
PUTTING = st.tuples(st.just("put"), PUTS) | st.tuples(
    st.just("forget"), st.lists(KEYS, max_size=2, unique=True)
)
STEPS = st.lists(COLLECTING | PUTTING, min_size=2, max_size=12)


class Model:
    """What is there, as a dict from keys to states with the order key they came with."""

    def __init__(self):
        self.states = {}

    def records(self):
        """The values that are there."""
        return {k: s.value for k, s in self.states.items() if isinstance(s, FinalizedValue)}

    def put(self, puts):
        """Values and tombstones, the last one of a key."""
        for key, value, order in puts:
            self.states[key] = Tombstone(order) if value is None else FinalizedValue(value, order)

    def change(self, changes):
        """Changes of the collection, as differences; order keys go."""
        differences = []
        for key, value in changes:
            before = self.states.pop(key, None)
            if isinstance(before, FinalizedValue):
                differences.append((key, before.value, -1))
            if value is not None:
                self.states[key] = FinalizedValue(value, None)
                differences.append((key, value, 1))
            elif isinstance(before, Tombstone) and key not in {each[0] for each in differences}:
                self.states[key] = before  # nothing came for it
        return differences


def play(state, model, kind, argument, random):
    """One step on both."""
    if kind == "put":
        held = {key: state.multi_get([key])[0].metadata for key, _, _ in argument}
        state.multi_put(
            (key, PutValue(Tombstone(o) if v is None else FinalizedValue(v, o), held[key]))
            for key, v, o in argument
        )
        model.put(argument)
    elif kind == "forget":
        held = state.multi_get(argument)
        state.multi_put((k, PutValue(None, h.metadata)) for k, h in zip(argument, held))
        for key in argument:
            model.states.pop(key, None)
    elif kind == "change":
        differences = model.change(argument)
        random.shuffle(differences)
        cut = random.randint(0, len(differences))
        state.consolidate_chunk(differences[:cut])
        state.consolidate_chunk(differences[cut:])


def check(state, model):
    """Whatever can be asked is as in the model, and the numbers are exact."""
    keys = ["a", "b", ("a", 1)]
    held = state.multi_get(keys)
    tombstones = [each for each in model.states.values() if isinstance(each, Tombstone)]

    assert [model.states.get(key) for key in keys] == [each.value for each in held]
    assert len(model.records()) == state.num_records
    assert len(tombstones) == state.num_tombstones
    assert sum(each.metadata.size for each in held if each.metadata) == state.size_bytes


@needs_rocksdict
@settings(max_examples=settings().max_examples // 2)
@given(STEPS, st.integers(1, 120), st.integers(0, 200), st.randoms(use_true_random=False))
def test_every_backend_is_a_dict(steps, max_heap_bytes, most_used, random):
    """Whatever is done to it, wherever it moves to disk, and however its differences come."""
    directory = Path(tempfile.mkdtemp())
    bounded = {"max_heap_bytes": max_heap_bytes}
    ways = {"memory": (None, {}), "rocksdb": (rocksdb(directory), {})}
    ways["spilling"] = (rocksdb(directory), bounded)
    before, _Entries.most_used = _Entries.most_used, most_used
    try:
        sizes = []
        for backend, options in ways.values():
            model, state = Model(), UpsertState(backend, **options)
            for kind, argument in steps:
                if kind == "restore":
                    snapshot = state.snapshot()
                    state.close()
                    state = UpsertState(backend, restore=snapshot, **options)
                else:
                    play(state, model, kind, argument, random)
                if random.random() < 0.5:  # else sketches wait
                    check(state, model)
            check(state, model)
            sizes.append(state.size_bytes)
            state.close()
        assert 1 == len(set(sizes))
    finally:
        _Entries.most_used = before
        shutil.rmtree(directory)
