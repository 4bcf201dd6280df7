# SPDX-License-Identifier: Apache-2.0
"""A pickle that would run code is shown as bytes by all that reads state, and is never opened.

The function itself reads what it declares as pickled; none of the readers has the function.
"""

import os
import pickle

import pyarrow as pa
import pytest

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationValueError
from pyflinklike.replica import open_state
from pyflinklike.savepoints import open_savepoint
from pyflinklike.serve import app
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness

PICKLED, TEXT = Types.PICKLED_BYTE_ARRAY(), Types.STRING()
STATES = ["value", "list", "map", "row", "aggregating", "store", "shared"]


class Hostile:
    """Makes a directory where it is unpickled."""

    def __init__(self, path):
        self._path = str(path)

    def __reduce__(self):
        return os.makedirs, (self._path, 0o777, True)


class Last(AggregateFunction):
    """The last value."""

    def create_accumulator(self):
        return None

    def add(self, value, accumulator):
        return value

    def get_result(self, accumulator):
        return None

    def merge(self, acc_a, acc_b):
        return acc_b


class Keeping(KeyedProcessFunction):
    """Keeps what it is given in everything that takes a pickle."""

    def open(self, runtime_context):
        of = runtime_context
        row = Types.ROW_NAMED(["n", "what"], [Types.LONG(), PICKLED])
        self.value = of.get_state(ValueStateDescriptor("value", PICKLED))
        self.list = of.get_list_state(ListStateDescriptor("list", PICKLED))
        self.map = of.get_map_state(MapStateDescriptor("map", TEXT, PICKLED))
        self.row = of.get_state(ValueStateDescriptor("row", row))
        folded = AggregatingStateDescriptor("aggregating", Last(), PICKLED)
        self.aggregating = of.get_aggregating_state(folded)
        self.store = of.get_store(KeyValueStoreDescriptor("store", TEXT, PICKLED))
        shared = KeyValueStoreDescriptor("shared", TEXT, PICKLED, scope="partition")
        self.shared = of.get_store(shared)

    def process_element(self, value, ctx):
        self.value.update(value.what)
        self.list.add(value.what)
        self.map.put("k", value.what)
        self.row.update(Row(n=1, what=value.what))
        self.aggregating.add(value.what)
        self.store.put("k", value.what)
        self.shared.put("k", value.what)
        return []


@pytest.fixture
def trap(tmp_path):
    """The directory that is there once a pickle was opened."""
    trap = tmp_path / "trap"
    yield trap
    assert not trap.exists(), "a pickle was opened"


@pytest.fixture
def savepoint(tmp_path, trap):
    """Of a harness that was given a hostile value."""
    with KeyedProcessHarness(Keeping(), lambda row: row.user, key_type=TEXT) as harness:
        harness.process_element(Row(user="ann", what=Hostile(trap)))
        harness.savepoint(tmp_path / "saved")
    if trap.exists():
        trap.rmdir()  # the function's own stores read what they replace
    return tmp_path / "saved"


def hostile(trap):
    """The bytes of it, as the type pickles."""
    return pickle.dumps(Hostile(trap), protocol=5)


@pytest.mark.parametrize("state", STATES)
def test_a_savepoint_shows_its_bytes(savepoint, trap, state):
    """Whatever state it is in."""
    opened = open_savepoint(savepoint)
    opened.verify()
    (row,) = opened.dataset(state).to_table().to_pylist()
    value = row["value"]["what"] if state == "row" else row["value"]
    assert hostile(trap) == value


def test_a_replica_refuses_what_it_would_have_to_open(savepoint, trap):
    """Before anything of it is read; `allow_pickle=True` is what asks for it."""
    with open_state(savepoint, allow_scan=True) as state:
        asks = [lambda name=name: state[name] for name in STATES[:-2]]
        asks += [lambda: state.store("store", key="ann"), lambda: state.store("shared")]
        for ask in asks:
            with pytest.raises(DeclarationValueError, match="nothing is unpickled"):
                ask()


def test_over_http_it_is_refused(savepoint, trap):
    """As a request that cannot be served."""
    with open_state(savepoint) as state:
        told = []
        environ = {"PATH_INFO": "/states/value", "QUERY_STRING": 'key="ann"'}
        body = app(state)(environ, lambda status, _: told.append(status))
        assert (["400 Bad Request"], True) == (told, b"nothing is unpickled" in b"".join(body))


@pytest.mark.parametrize(
    "arguments",
    [
        *(["list"], ["show", "value"], ["show", "row"], ["get", "map", "ann"], ["check"]),
        *(["get", "--all", "ann"], ["timers"], ["diff", "itself"], ["export", "jsonl"]),
    ],
    ids=" ".join,
)
def test_the_command_line_shows_its_bytes(savepoint, trap, tmp_path, capsys, arguments):
    """Every command that reads a savepoint."""
    pytest.importorskip("click")
    pytest.importorskip("rich")
    from pyflinklike.cli.entry import main

    command, *rest = arguments
    if command == "diff":
        rest = [savepoint]
    if command == "export":
        rest = [tmp_path / "out", "--format", *rest]
    code = main(["state", command, *map(str, [savepoint, *rest])])
    told = capsys.readouterr()
    assert (0, "") == (code, told.err), told


def test_a_difference_compares_bytes(savepoint, trap):
    """Without opening either side."""
    from pyflinklike.replay.differences import differences

    before = open_savepoint(savepoint).dataset("value").to_table()
    none = before.slice(0, 0)
    (row,) = differences(none, before, ["key"]).to_pylist()
    assert ("insert", hostile(trap)) == (row["change"], row["after"])
    assert pa.types.is_binary(before.schema.field("value").type)
