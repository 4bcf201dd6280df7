# SPDX-License-Identifier: Apache-2.0
"""A pickle that would run code is shown as bytes by all that reads state, and is never opened.

The function itself reads what it declares as pickled; none of the readers has the function.
"""

import pyarrow as pa
import pytest
from asgi_support import ask
from savepoint_trap import TRAPPED, Trapped, hostile

from pyflinklike import Row, Types
from pyflinklike.errors import DeclarationValueError
from pyflinklike.queryable_state import QueryableState
from pyflinklike.queryable_state.http import app
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.testing import KeyedProcessHarness


@pytest.fixture
def trap(tmp_path):
    """The directory that is there once a pickle was opened."""
    trap = tmp_path / "trap"
    yield trap
    assert not trap.exists(), "a pickle was opened"


@pytest.fixture
def savepoint(tmp_path, trap):
    """Of a harness that was given a hostile value."""
    with KeyedProcessHarness(
        Trapped(str(trap)), lambda row: row.user, key_type=Types.STRING()
    ) as harness:
        harness.process_element(Row(user="ann"))
        write_savepoint(harness, tmp_path / "saved")
    if trap.exists():
        trap.rmdir()  # the function's own stores read what they replace
    return tmp_path / "saved"


@pytest.mark.parametrize("state", TRAPPED)
def test_a_savepoint_shows_its_bytes(savepoint, trap, state):
    """Whatever state it is in."""
    opened = open_savepoint(savepoint)
    opened.verify()
    (row,) = opened.dataset(state).to_table().to_pylist()
    value = row["value"]["what"] if state == "row" else row["value"]
    assert hostile(trap) == value


def test_a_replica_refuses_what_it_would_have_to_open(savepoint, trap):
    """Before anything of it is read; `allow_pickle=True` is what asks for it."""
    with QueryableState.open_savepoint(savepoint, allow_scan=True) as state:
        asks = [lambda name=name: state[name] for name in TRAPPED[:-2]]
        asks += [lambda: state.store("store", key="ann"), lambda: state.store("shared")]
        for ask in asks:
            with pytest.raises(DeclarationValueError, match="nothing is unpickled"):
                ask()


def test_over_http_it_is_refused(savepoint, trap):
    """As a request that cannot be served."""
    with QueryableState.open_savepoint(savepoint) as state:
        status, _, body = ask(app(state), "/states/value", b'key="ann"')
        assert (400, True) == (status, b"nothing is unpickled" in body)


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
    from pyflinklike.cli import main

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
    from pyflinklike.state_processor._logs.state_differences import differences

    before = open_savepoint(savepoint).dataset("value").to_table()
    none = before.slice(0, 0)
    (row,) = differences(none, before, ["key"]).to_pylist()
    assert ("insert", hostile(trap)) == (row["change"], row["after"])
    assert pa.types.is_binary(before.schema.field("value").type)
