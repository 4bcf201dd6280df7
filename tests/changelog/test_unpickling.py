# SPDX-License-Identifier: Apache-2.0
"""Nothing is unpickled that the program did not itself declare as pickled, and nothing at all where that is refused."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.segments import Declaration, Segment, read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike.backends.rocksdb.rocksdb_backend import EmbeddedRocksDBStateBackend
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
)
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.state_processor._logs.checkpoint_logs import merge, refuse_pickles
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types.key_codec import AnyKeyTypeInfo
from pyflinklike.types.pickled_type import ALLOW_PICKLE

PICKLED = Types.PICKLED_BYTE_ARRAY()
NESTED = [
    PICKLED,
    Types.LIST(PICKLED),
    Types.MAP(Types.STRING(), PICKLED),
    Types.MAP(PICKLED, Types.LONG()),
    Types.TUPLE([Types.LONG(), PICKLED]),
    Types.ROW_NAMED(["a"], [Types.OBJECT_ARRAY(PICKLED)]),
]


class Hostile:
    """Its pickle makes a file where it is read."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> Any:
        """What the pickle does."""
        return open, (self._path, "w")


@pytest.fixture
def touched(tmp_path: Path) -> Path:
    """What a hostile pickle would make."""
    return tmp_path / "touched"


class Probe(KeyedProcessFunction):
    """Declares states; what is processed is called with them."""

    def __init__(self, *descriptors: Any) -> None:
        self._descriptors = descriptors

    def open(self, runtime_context):
        """Declare them."""
        getters = {
            ValueStateDescriptor: runtime_context.get_state,
            ListStateDescriptor: runtime_context.get_list_state,
            MapStateDescriptor: runtime_context.get_map_state,
            KeyValueStoreDescriptor: runtime_context.get_store,
        }
        self.states = [getters[type(each)](each) for each in self._descriptors]

    def process_element(self, value, ctx):
        """Call what came."""
        yield value[1](*self.states)


def snapshot_of(key: Any, descriptor: Any, write: Any, key_type: Any = None) -> bytes:
    """What a program that trusts pickles left."""
    with KeyedProcessHarness(
        Probe(descriptor), key_selector=lambda value: value[0], key_type=key_type
    ) as harness:
        harness.process_element((key, write))
        return harness.snapshot()


def restored(snapshot: bytes, *descriptors: Any, key_type: Any = None, **options: Any) -> Any:
    """A harness of a program that declares other things."""
    return KeyedProcessHarness(
        Probe(*descriptors),
        key_selector=lambda value: value[0],
        restore=snapshot,
        key_type=key_type,
        **options,
    )


LONGS = ValueStateDescriptor("s", Types.LONG())


@pytest.mark.parametrize("key_type", [PICKLED, Types.TUPLE([Types.LONG(), PICKLED])], ids=str)
def test_pickled_keys_are_not_read_by_a_harness_that_declares_no_key_type(touched, key_type):
    """What is stored does not decide that it is unpickled."""
    key = Hostile(touched) if key_type is PICKLED else (1, Hostile(touched))
    snapshot = snapshot_of(key, LONGS, lambda state: state.update(1), key_type)
    touched.unlink(missing_ok=True)

    with pytest.raises(IncompatibleStateError, match="pickled keys are read only if"):
        restored(snapshot, LONGS)
    assert not touched.exists()


def test_pickled_keys_are_read_by_a_program_that_declares_them():
    """It says so itself."""
    snapshot = snapshot_of(frozenset("ab"), LONGS, lambda state: state.update(7), PICKLED)
    with restored(snapshot, LONGS, key_type=PICKLED) as harness:
        assert [7] == harness.process_element((frozenset("ab"), lambda state: state.value()))


def test_pickled_keys_are_not_regrouped_under_another_type(touched):
    """As a stream of decimal keys would that begins with a savepoint."""
    snapshot = snapshot_of(Hostile(touched), LONGS, lambda state: state.update(1), PICKLED)
    touched.unlink(missing_ok=True)

    for key_type in (AnyKeyTypeInfo(), Types.STRING()):
        with pytest.raises(IncompatibleStateError):
            regroup_snapshot(
                read_segment(snapshot, "savepoint"), key_type, lambda _: [0], 1, "savepoint"
            )
    assert not touched.exists()


@pytest.mark.parametrize("stored", NESTED, ids=str)
def test_a_stored_type_that_is_pickled_is_refused_before_anything_is_read(touched, stored):
    """The program's declaration counts."""
    hostile = Hostile(touched)
    values = [hostile, [hostile], {"a": hostile}, {hostile: 1}, (1, hostile), ([hostile],)]
    value = values[NESTED.index(stored)]
    snapshot = snapshot_of(
        "k", ValueStateDescriptor("s", stored), lambda state: state.update(value)
    )
    touched.unlink(missing_ok=True)

    for now in (Types.LONG(), Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())):
        with pytest.raises(IncompatibleStateError, match="state 's'"):
            restored(snapshot, ValueStateDescriptor("s", now))
    assert not touched.exists()


@pytest.mark.parametrize(
    ("descriptor", "write"),
    [
        (ValueStateDescriptor("s", PICKLED), lambda state, value: state.update(value)),
        (ListStateDescriptor("s", PICKLED), lambda state, value: state.add(value)),
        (MapStateDescriptor("s", PICKLED, PICKLED), lambda state, value: state.put(value, value)),
    ],
    ids=["value", "list", "map"],
)
def test_what_is_not_declared_is_carried_along_undecoded(touched, descriptor, write):
    """Through a restore, a change of the key type and a snapshot; and nothing is unpickled."""
    snapshot = snapshot_of("k", descriptor, lambda state: write(state, Hostile(touched)))
    touched.unlink(missing_ok=True)
    other = ValueStateDescriptor("other", Types.LONG())
    for key_type in (None, Types.STRING()):
        with restored(snapshot, other, key_type=key_type) as harness:
            harness.process_element(("k", lambda state: state.update(1)))
            snapshot = harness.snapshot()
    groups = regroup_snapshot(
        read_segment(snapshot, "savepoint"), Types.STRING(), lambda keys: [3] * len(keys), 8, "sp"
    )
    assert not touched.exists()
    names = {each.name for segment in groups[3] for each in segment.declarations.values()}
    assert {"s", "other"} == names


# The switch


@pytest.fixture(params=["argument", "environment", "both"])
def refusing(request, monkeypatch):
    """The ways to refuse pickles."""
    if request.param != "argument":
        monkeypatch.setenv(ALLOW_PICKLE, "0")
    return {} if request.param == "environment" else {"allow_pickle": False}


def harness_of(descriptor: Any, **options: Any) -> KeyedProcessHarness:
    """A harness of a program with one state."""
    return KeyedProcessHarness(Probe(descriptor), key_selector=lambda value: value[0], **options)


@pytest.mark.parametrize("type_info", NESTED, ids=str)
def test_with_the_switch_off_no_pickled_state_can_be_declared(refusing, type_info):
    """Of whatever kind; the state is named."""
    for descriptor in (
        ValueStateDescriptor("s", type_info),
        ListStateDescriptor("s", type_info),
        MapStateDescriptor("s", Types.STRING(), type_info),
        MapStateDescriptor("s", type_info, Types.STRING()),
        KeyValueStoreDescriptor("s", Types.STRING(), type_info),
    ):
        with pytest.raises(DeclarationValueError, match=r"state 's.*nothing is unpickled"):
            harness_of(descriptor, **refusing)


def test_with_the_switch_off_keys_cannot_be_pickled(refusing):
    """Nor parts of them."""
    for key_type in NESTED:
        with pytest.raises(DeclarationValueError, match="keys: nothing is unpickled"):
            harness_of(LONGS, key_type=key_type, **refusing)


def test_with_the_switch_off_rocksdb_is_refused(refusing, tmp_path):
    """Its local files hold pickles."""
    pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(tmp_path))

    with pytest.raises(DeclarationValueError, match="use HashMapStateBackend"):
        harness_of(LONGS, state_backend=backend, **refusing)


def test_with_the_switch_off_everything_else_works():
    """Pickled states that are not declared are carried along."""
    pickled = ValueStateDescriptor("p", PICKLED)
    snapshot = snapshot_of("k", pickled, lambda state: state.update({"a": 1}))
    with restored(snapshot, LONGS, allow_pickle=False) as harness:
        harness.process_element(("k", lambda state: state.update(5)))
        assert [5] == harness.process_element(("k", lambda state: state.value()))
        after = harness.snapshot()
    with restored(after, pickled) as harness:
        assert [{"a": 1}] == harness.process_element(("k", lambda state: state.value()))


def test_the_environment_says_yes_or_no(monkeypatch):
    """A word that is neither does not count as yes."""
    for said in ("1", "true", "", "ON"):
        monkeypatch.setenv(ALLOW_PICKLE, said)
        harness_of(ValueStateDescriptor("s", PICKLED)).close()
    monkeypatch.setenv(ALLOW_PICKLE, "never")
    with pytest.raises(DeclarationValueError, match="PYFLINKLIKE_ALLOW_PICKLE must be 0 or 1"):
        harness_of(LONGS)


def test_the_switch_is_a_bool():
    """Nothing is guessed."""
    with pytest.raises(DeclarationTypeError, match="allow_pickle takes True or False, got 0"):
        harness_of(LONGS, allow_pickle=0)


@pytest.mark.parametrize("type_info", NESTED, ids=str)
def test_a_savepoint_can_be_refused_for_its_pickles(type_info):
    """Of values, user keys and keys, declared or hidden in another type."""
    long = Types.LONG()
    for key_type, user_key, value in permutations((type_info, long, long)):
        spec = TableSpec("s", Shape.MAP, "map", value, user_key)
        declaration = Declaration.of(spec, key_type)
        segment = Segment(bytes(16), b"", {0: declaration}, [(0, b"never decoded")])
        with pytest.raises(
            IncompatibleStateError, match="group 0: the savepoint must be without pickles"
        ):
            refuse_pickles({"group 0": [segment]})


def test_a_savepoint_without_pickles_is_not_refused():
    """A field that is called as the type is none of it."""
    row = Types.ROW_NAMED(["PickledByteArrayTypeInfo"], [Types.LONG()])
    snapshot = snapshot_of("k", ValueStateDescriptor("s", row), lambda state: state.update((1,)))
    log = {"group 0": [read_segment(snapshot, "savepoint")]}
    refuse_pickles(log)
    assert merge(log)
