# SPDX-License-Identifier: Apache-2.0
"""`UpsertState` over its three backends."""

import importlib.util
import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike import Row
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    HostError,
    StateValueError,
    StoreClosedError,
    UpsertStateError,
)
from pyflinklike.upsert import (
    AutoSpillBackend,
    Consolidating,
    FinalizedValue,
    GetStats,
    InMemoryUpsertBackend,
    MergeValue,
    ProvisionalValue,
    PutStats,
    PutValue,
    RocksDBUpsertBackend,
    SnapshotStats,
    Tombstone,
    UpsertState,
    UpsertValueAndSize,
    ValueMetadata,
)

needs_rocksdict = pytest.mark.skipif(
    importlib.util.find_spec("rocksdict") is None,
    reason="rocksdict is not installed (the extra `rocksdb`)",
)
MAKERS = {
    "memory": lambda path: InMemoryUpsertBackend(),
    "rocksdb": lambda path: RocksDBUpsertBackend(path / "rocks"),
    "spilled": lambda path: AutoSpillBackend(threshold=0, path=path / "spill"),
    "unspilled": lambda path: AutoSpillBackend(threshold=1 << 30, path=path / "spill"),
}


@pytest.fixture(
    params=["memory", *(pytest.param(n, marks=needs_rocksdict) for n in list(MAKERS)[1:])]
)
def backend(request, tmp_path):
    """Each backend in turn."""
    backend = MAKERS[request.param](tmp_path)
    yield backend
    backend.close()


def put(state, key, value):
    """Put one value as the contract asks: with the metadata of what was there."""
    before = state.multi_get([key])[0].metadata
    return state.multi_put([(key, PutValue(value, before))])


def values(state, *keys):
    """The states under some keys."""
    return [each.value for each in state.multi_get(keys)]


# Getting and putting


def test_what_was_put_is_there(backend):
    """In the order of the keys asked for; nothing where nothing was put."""
    state = UpsertState(backend)
    put(state, "a", FinalizedValue({"n": [1]}, (3, "x")))
    put(state, "b", Tombstone(4))
    put(state, ("c", 1), ProvisionalValue((1, 2), (None, 3, 4)))

    assert [
        Tombstone(4),
        None,
        ProvisionalValue((1, 2), (None, 3, 4)),
        FinalizedValue({"n": [1]}, (3, "x")),
    ] == values(state, "b", "absent", ("c", 1), "a")


def test_absence_has_no_metadata(backend):
    """Both fields are None."""
    assert [UpsertValueAndSize(None, None)] == UpsertState(backend).multi_get(["a"])


def test_keys_are_told_apart_by_type(backend):
    """As keys are everywhere here."""
    state = UpsertState(backend)
    for key in (1, True, 1.0, "1", b"1", (1,), Row(a=1)):
        put(state, key, FinalizedValue(repr(key)))

    assert 7 == state.num_records
    assert [FinalizedValue("True"), FinalizedValue("1")] == values(state, True, 1)


def test_a_key_asked_for_twice_is_refused(backend):
    """The answer would have to be put twice, too."""
    with pytest.raises(ValueError, match="keys of one multi_get must differ, got 'a' twice"):
        UpsertState(backend).multi_get(["a", "b", "a"])


@pytest.mark.parametrize("bad", [None, {1, 2}])
def test_a_key_that_is_none_is_refused(backend, bad):
    """By every verb, as a TypeError."""
    state = UpsertState(backend)
    with pytest.raises(TypeError):
        state.multi_get([bad])
    with pytest.raises(TypeError):
        state.multi_put([(bad, PutValue(FinalizedValue(1), None))])
    with pytest.raises(TypeError):
        state.consolidate_chunk([(bad, 1, 1)])


def test_what_cannot_be_stored_stops_the_whole_batch(backend):
    """Bad input corrupts nothing: neither what is held nor the numbers."""
    state = UpsertState(backend)
    good = PutValue(FinalizedValue("v"), None)

    for bad in (PutValue(FinalizedValue({1}), None), PutValue("v", None), FinalizedValue("v")):
        with pytest.raises(StateValueError):
            state.multi_put([("a", good), ("b", bad)])
    for bad in (("b", "v"), ("b", None, 1), ("b", {1}, 1), ("b", "v", "1"), 5):
        with pytest.raises((StateValueError, ValueError)):
            state.consolidate_chunk([("a", "v", 1), bad])

    assert ([None], 0, 0) == (values(state, "a"), state.num_records, state.size_bytes)
    assert PutStats() == state.put_stats
    assert SnapshotStats() == state.snapshot_stats


def test_of_two_puts_of_one_key_the_last_one_stays(backend):
    """And is counted once."""
    state = UpsertState(backend)
    stats = state.multi_put(
        [
            ("a", PutValue(FinalizedValue("first"), None)),
            ("a", PutValue(Tombstone(None), None)),
            ("a", PutValue(FinalizedValue("last one"), None)),
        ]
    )

    size = state.multi_get(["a"])[0].metadata.size
    assert [FinalizedValue("last one")] == values(state, "a")
    assert PutStats(3, 1, 0, size, 2, 0, 1) == stats
    assert (1, 0, size) == (state.num_records, state.num_tombstones, state.size_bytes)


def test_what_was_handed_out_is_the_callers_own(backend):
    """Changing it changes nothing here; nor does changing what was put."""
    value = {"n": [1]}
    state = UpsertState(backend)
    put(state, "a", FinalizedValue(value))
    value["n"].append(2)
    state.multi_get(["a"])[0].value.value["n"].append(3)

    assert [FinalizedValue({"n": [1]})] == values(state, "a")


def test_records_and_tombstones_are_counted(backend):
    """Deletes, too; without per-record statistics only the differences are."""
    state = UpsertState(backend)
    put(state, "a", FinalizedValue("v", 1))
    updated = put(state, "a", FinalizedValue("vv", 2))
    deleted = put(state, "a", Tombstone(3))
    forgotten = put(state, "a", None)
    again = state.multi_put([("a", PutValue(FinalizedValue("v"), None))], False)

    assert (0, 0, 1, 1) == (
        updated.values_diff,
        updated.inserts,
        updated.updates,
        updated.size_diff,
    )
    assert (-1, 1, 1) == (deleted.values_diff, deleted.tombstones_diff, deleted.deletes)
    assert (0, -1, 0) == (forgotten.values_diff, forgotten.tombstones_diff, forgotten.deletes)
    assert PutStats(1, 1, 0, 4) == again
    assert PutStats(5, 1, 0, 4, 1, 1, 1) == state.put_stats


def test_gets_are_counted(backend):
    """Asked for, found, and the bytes of what was found."""
    state = UpsertState(backend)
    put(state, "a", FinalizedValue("v"))
    state.multi_get(["a", "b"])

    assert GetStats(3, 4, 1) == state.get_stats


# Consolidating


def test_a_snapshot_in_any_order_is_the_collection(backend):
    """Old values go, whenever they come; sizes are those of what is left."""
    state = UpsertState(backend)
    state.consolidate_chunk([("a", "new", 1), ("b", "gone", -1)])
    state.consolidate_chunk([("c", "c", 1), ("a", "older, longer", -1), ("b", "gone", 1)])
    stats = state.consolidate_chunk([("a", "older, longer", 1)], completed=True)

    assert [FinalizedValue("new", None), None, FinalizedValue("c", None)] == values(
        state, "a", "b", "c"
    )
    sizes = [each.metadata.size for each in state.multi_get(["a", "c"])]
    assert (2, 0, sum(sizes)) == (state.num_records, state.num_tombstones, state.size_bytes)
    assert (1, 1, 1, 0) == (stats.updates, stats.values_diff, stats.inserts, stats.deletes)
    assert (6, 2, 4, 2) == (
        state.snapshot_stats.updates,
        state.snapshot_stats.values_diff,
        state.snapshot_stats.inserts,
        state.snapshot_stats.deletes,
    )


def test_what_is_taken_away_again_leaves_nothing(backend):
    """No state is held for its key."""
    state = UpsertState(backend)
    state.consolidate_chunk([("a", "v", 1), ("b", "v", -1)])
    state.consolidate_chunk([("a", "v", -1), ("b", "v", 1)])

    assert (0, 0) == (state.num_records, state.size_bytes)
    assert PutStats() == backend.totals()


def test_a_snapshot_is_completed_once(backend):
    """Twice is a RuntimeError that changes nothing; later chunks are what is appended."""
    state = UpsertState(backend)
    state.consolidate_chunk([("a", "v", 1)], completed=True)

    with pytest.raises(RuntimeError, match="completed once"):
        state.consolidate_chunk([("b", "v", 1)], completed=True)
    state.consolidate_chunk([("a", "v", -1), ("a", "w", 1)])

    assert [FinalizedValue("w", None), None] == values(state, "a", "b")


def test_a_collection_that_is_not_whole_is_no_value(backend):
    """Its key reads as the sketch it is, which tells why when it is decoded."""
    state = UpsertState(backend)
    state.consolidate_chunk([("a", "v", 1), ("a", "w", 1)])
    [held] = values(state, "a")

    assert isinstance(held, Consolidating)
    with pytest.raises(UpsertStateError, match="diff_sum: 2"):
        held.ensure_decoded()


def test_differences_of_what_was_put_are_exact(backend):
    """The order keys and tombstones that go are known, although a sketch has neither."""
    state = UpsertState(backend)
    put(state, "a", FinalizedValue("v", 10**9))
    put(state, "b", Tombstone(10**9))
    state.consolidate_chunk([("a", "v", -1), ("b", "w", 1), ("a", "vv", 1)])

    assert [FinalizedValue("vv", None), FinalizedValue("w", None)] == values(state, "a", "b")
    sizes = [each.metadata.size for each in state.multi_get(["a", "b"])]
    assert (2, 0, sum(sizes)) == (state.num_records, state.num_tombstones, state.size_bytes)


def test_of_a_provisional_value_what_is_settled_counts(backend):
    """What was emitted comes back as a difference."""
    state = UpsertState(backend)
    put(state, "a", ProvisionalValue(("old", 1), ("new", 5, 2)))
    state.consolidate_chunk([("a", "new", 1), ("a", "old", -1)])

    assert [FinalizedValue("new", None)] == values(state, "a")
    assert 1 == state.num_records


# Merging


def test_a_backend_says_whether_it_merges(backend):
    """Truthfully: it then does, and else refuses."""
    sketch = Consolidating()
    sketch.merge_update("v", 1)
    merge = [("a", MergeValue(sketch, 1))]
    if backend.supports_merge:
        stats = backend.multi_merge(merge)
        assert (1, 4) == (stats.written_merge_operands, stats.size_diff)
        assert [FinalizedValue("v", None)] == values(UpsertState(backend), "a")
    else:
        with pytest.raises(NotImplementedError, match="does not support merging"):
            backend.multi_merge(merge)


@needs_rocksdict
def test_operands_are_added_to_values(tmp_path):
    """As a merge operator would: a value is one record."""
    backend = RocksDBUpsertBackend(tmp_path)
    backend.multi_put([("a", PutValue(FinalizedValue("old", 5), None))])
    for value, diff in (("new", 1), ("old", -1)):
        sketch = Consolidating()
        sketch.merge_update(value, diff)
        backend.multi_merge([("a", MergeValue(sketch, diff))])

    assert [FinalizedValue("new", None)] == values(UpsertState(backend), "a")
    with pytest.raises(StateValueError, match="multi_merge takes"):
        backend.multi_merge([("a", sketch)])


@needs_rocksdict
def test_a_put_after_operands_replaces_them(tmp_path):
    """Nothing of them comes back."""
    backend = RocksDBUpsertBackend(tmp_path)
    sketch = Consolidating()
    sketch.merge_update("v", 1)
    backend.multi_merge([("a", MergeValue(sketch, 1)), ("aa", MergeValue(sketch, 1))])
    backend.multi_put([("a", PutValue(Tombstone(1), ValueMetadata(4, False)))])

    assert [Tombstone(1), FinalizedValue("v", None)] == values(UpsertState(backend), "a", "aa")


@needs_rocksdict
def test_many_operands_are_folded_in_slices(tmp_path):
    """More keys than one slice, whose bytes are beginnings of one another."""
    random = Random(3)
    keys = [random.randbytes(random.randrange(1, 4)) for _ in range(4_000)]
    expected = {key: FinalizedValue(i, None) for i, key in enumerate(keys)}
    rows = [(key, each.value, 1) for key, each in expected.items()]
    rows += [row for key in keys for row in ((key, "old", 1), (key, "old", -1))]
    random.shuffle(rows)
    state = UpsertState(RocksDBUpsertBackend(tmp_path))
    for begin in range(0, len(rows), 999):
        state.consolidate_chunk(rows[begin : begin + 999])

    assert list(expected.values()) == values(state, *expected)
    assert len(expected) == state.num_records == UpsertState(state._backend).num_records


# Backends


def test_a_closed_backend_refuses(backend):
    """All verbs; closing it again does nothing."""
    state = UpsertState(backend)
    state.close()
    state.close()

    for use in (
        lambda: state.multi_get(["a"]),
        lambda: state.multi_put([("a", PutValue(FinalizedValue(1), None))]),
        lambda: state.consolidate_chunk([("a", 1, 1)]),
        lambda: UpsertState(backend),
    ):
        with pytest.raises(StoreClosedError, match="after close"):
            use()


def test_state_takes_a_backend_only():
    """Told at once."""
    with pytest.raises(TypeError, match="takes a backend"):
        UpsertState({})


@needs_rocksdict
def test_a_rocksdb_is_gone_on_with(tmp_path):
    """With the numbers of what it holds, operands not folded yet included."""
    state = UpsertState(RocksDBUpsertBackend(tmp_path / "new" / "place"))
    state.consolidate_chunk([("a", "v", 1), ("b", "w", 1)])
    size = state.size_bytes
    state.close()
    again = UpsertState(RocksDBUpsertBackend(tmp_path / "new" / "place"))

    assert (2, 0, size) == (again.num_records, again.num_tombstones, again.size_bytes)
    put(again, "a", Tombstone(7))
    again.close()
    last = UpsertState(RocksDBUpsertBackend(tmp_path / "new" / "place"))
    assert (1, 1) == (last.num_records, last.num_tombstones)
    assert [Tombstone(7), FinalizedValue("w", None)] == values(last, "a", "b")


@needs_rocksdict
def test_a_directory_that_cannot_be_used_is_told(tmp_path):
    """A file in its place, or somebody else who has it open."""
    (tmp_path / "file").write_text("x")
    open_already = RocksDBUpsertBackend(tmp_path / "open")

    for path in ("file", "open"):
        with pytest.raises(HostError, match="open only once"):
            RocksDBUpsertBackend(tmp_path / path)
    open_already.close()


@needs_rocksdict
def test_spilling_makes_the_directory_when_it_is_needed(tmp_path):
    """And removes it when the backend is closed."""
    path = tmp_path / "spill"
    backend = AutoSpillBackend(threshold=100, path=path)
    state = UpsertState(backend)
    put(state, "a", FinalizedValue("x" * 50))
    assert (False, False, False) == (backend.is_spilled, backend.supports_merge, path.exists())

    put(state, "b", FinalizedValue("y" * 50))
    assert (True, True, True) == (backend.is_spilled, backend.supports_merge, path.exists())
    assert [FinalizedValue("x" * 50), FinalizedValue("y" * 50)] == values(state, "a", "b")

    put(state, "a", None)
    put(state, "b", None)
    assert backend.is_spilled
    assert (0, 0) == (state.num_records, state.size_bytes)
    state.close()
    assert not path.exists()


def test_what_is_replaced_makes_room(tmp_path):
    """Only what is held counts, not what was ever put."""
    backend = AutoSpillBackend(threshold=100, path=tmp_path / "spill")
    state = UpsertState(backend)
    for number in range(50):
        put(state, "a", FinalizedValue(f"{number:050}"))
    put(state, "a", None)
    put(state, "b", FinalizedValue("y" * 50))

    assert not backend.is_spilled


@needs_rocksdict
def test_a_spill_that_fails_leaves_all_in_memory(tmp_path):
    """The put is undone; when there is room again it goes on."""
    backend = AutoSpillBackend(threshold=100, path=tmp_path / "d" / "spill")
    state = UpsertState(backend)
    put(state, "a", FinalizedValue("x"))
    (tmp_path / "d").write_text("in the way")

    with pytest.raises((HostError, OSError)):
        put(state, "b", FinalizedValue("y" * 100))
    assert ([FinalizedValue("x"), None], 1) == (values(state, "a", "b"), state.num_records)

    (tmp_path / "d").unlink()
    put(state, "b", FinalizedValue("y" * 100))
    assert (True, 2) == (backend.is_spilled, state.num_records)
    state.close()


@needs_rocksdict
def test_what_a_killed_spill_left_is_removed(tmp_path):
    """Nothing of it comes back."""
    killed = AutoSpillBackend(threshold=0, path=tmp_path / "a")
    put(UpsertState(killed), "left", FinalizedValue("x"))
    killed._rocks.close()  # its process is gone, its files are not
    backend = AutoSpillBackend(threshold=0, path=tmp_path / "a")
    state = UpsertState(backend)
    put(state, "new", FinalizedValue("y"))

    assert [None, FinalizedValue("y")] == values(state, "left", "new")
    assert 1 == state.num_records == backend.totals().values_diff
    state.close()


def test_a_directory_with_something_else_is_not_spilled_into(tmp_path):
    """It would have to be removed first."""
    (tmp_path / "precious").write_text("x")

    with pytest.raises(DeclarationValueError, match="new or empty"):
        AutoSpillBackend(threshold=0, path=tmp_path)


@pytest.mark.parametrize(
    ("threshold", "error"), [(-1, ValueError), ("1", TypeError), (True, TypeError)]
)
def test_a_threshold_is_a_number_of_bytes(tmp_path, threshold, error):
    """Checked when it is declared."""
    with pytest.raises((DeclarationTypeError, DeclarationValueError)) as raised:
        AutoSpillBackend(threshold=threshold, path=tmp_path)
    assert isinstance(raised.value, error)


# All backends are one


KEYS = st.sampled_from(["a", "b", ("a", 1)])
VALUES = st.integers(0, 3) | st.text(max_size=9)
SOMETIMES = st.sampled_from([True, False, False])
OPTIONAL = st.tuples(SOMETIMES, VALUES).map(lambda drawn: None if drawn[0] else drawn[1])
PUTS = st.lists(st.tuples(KEYS, OPTIONAL, st.none() | st.integers(0, 300)), min_size=1, max_size=4)
CHANGES = st.lists(st.tuples(KEYS, OPTIONAL), min_size=1, max_size=5)
COLLECTING = st.tuples(st.just("change"), CHANGES) | st.tuples(st.just("reopen"), st.none())
PUTTING = st.tuples(st.just("put"), PUTS) | st.tuples(
    st.just("forget"), st.lists(KEYS, max_size=2, unique=True)
)
# A backend merges as long as nothing was put.
STEPS = st.lists(COLLECTING, min_size=2, max_size=8) | st.lists(
    COLLECTING | PUTTING, min_size=4, max_size=12
)


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
@settings(max_examples=40)
@given(STEPS, st.integers(0, 120), st.randoms(use_true_random=False))
def test_every_backend_is_a_dict(steps, threshold, random):
    """Whatever is done to it, wherever it spills, and however its differences come."""
    directory = Path(tempfile.mkdtemp())
    makers = {
        "memory": InMemoryUpsertBackend,
        "rocksdb": lambda: RocksDBUpsertBackend(directory / "rocks"),
        "spilling": lambda: AutoSpillBackend(threshold=threshold, path=directory / "spill"),
    }
    try:
        sizes = []
        for name, make in makers.items():
            model, state = Model(), UpsertState(make())
            for kind, argument in steps:
                if kind != "reopen":
                    play(state, model, kind, argument, random)
                elif name == "rocksdb":
                    state.close()
                    state = UpsertState(make())
                if random.random() < 0.5:  # else operands wait
                    check(state, model)
            check(state, model)
            sizes.append(state.size_bytes)
            state.close()
        assert 1 == len(set(sizes))
    finally:
        shutil.rmtree(directory)
