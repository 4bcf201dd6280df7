# SPDX-License-Identifier: Apache-2.0
"""The RocksDB backend: the suite, the model, and what happens to its directory.

What the suite does fits into the overlay of one batch.  `Restless` therefore
brings everything to the disk whenever changes are drained, so that the suite
also sees entries of which some are on disk and some are not.  The machine that compares
with the model ends batches by itself.
"""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from datetime import date
from math import nan
from pathlib import Path

import attrs
import pytest
from hypothesis import settings

pytest.register_assert_rewrite("pyflinklike.testing.conformance", "pyflinklike.testing.agreement")
pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

from pyflinklike import (  # noqa: E402
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    Instant,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    Row,
    StateBackend,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.backends.rocksdb import backend as rocksdb  # noqa: E402
from pyflinklike.backends.rocksdb import local_store as rocksdb_store  # noqa: E402
from pyflinklike.backends.rocksdb.backend import RocksDBKeyedStateBackend  # noqa: E402
from pyflinklike.backends.rocksdb.keys import decode, encode  # noqa: E402
from pyflinklike.errors import (  # noqa: E402
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    HostError,
    StateValueError,
)
from pyflinklike.log.working_state import WorkingState  # noqa: E402
from pyflinklike.state.table import MISSING, Scope, Shape, TableChanges, TableSpec  # noqa: E402
from pyflinklike.testing import KeyedProcessHarness  # noqa: E402
from pyflinklike.testing.agreement import agreement_machine  # noqa: E402
from pyflinklike.testing.conformance import StateBackendConformance  # noqa: E402
from pyflinklike.types.keys import EncodedKey  # noqa: E402
from pyflinklike.types.pickled import Pickled  # noqa: E402

VALUE = TableSpec("value", Shape.SINGLE, "value", Types.STRING())
MAP = TableSpec("map", Shape.MAP, "map", Types.STRING(), Types.LONG())
LIST = TableSpec("list", Shape.LIST, "list", Types.STRING())
SPECS = {spec.name: spec for spec in (VALUE, MAP, LIST)}


def in_directory(path) -> EmbeddedRocksDBStateBackend:
    """A backend whose files lie there."""
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(path))
    return backend


# What working state the suite and the model give it


class RestlessKeyedStateBackend(RocksDBKeyedStateBackend):
    """Writes to the disk whenever nothing is left to log, each group to a range of its own."""

    def __init__(self, *arguments, most_packed):
        super().__init__(*arguments)
        self._seen = []
        self._most_packed = most_packed

    def table(self, spec):
        table = super().table(spec)
        if spec.shape is not Shape.SINGLE:
            table.most_packed = self._most_packed
        return table

    def enter(self, index, tables):
        where = next((at for at, seen in enumerate(self._seen) if seen is tables), None)
        if where is None:
            where = len(self._seen)
            self._seen.append(tables)
        super().enter(where, tables)

    def drain(self):
        changes = super().drain()
        self._settle()
        return changes

    def discard_changes(self):
        super().discard_changes()
        self._settle()

    def _settle(self):
        if any(seen is self._group for seen in self._seen):
            index, tables = self._index, self._group
            RocksDBKeyedStateBackend.enter(self, index, tables)
            group = WorkingState(index, bytes(16), tables=tables)
            entered, self.enter = self.enter, super().enter
            self.keep_warm(group)
            self.enter = entered


@attrs.frozen
class Restless(StateBackend):
    """Makes these."""

    path: str
    most_packed: int = 128

    def create_keyed_state_backend(self, scope, owner):
        return RestlessKeyedStateBackend(
            scope,
            owner,
            (self.path,),
            PredefinedOptions.DEFAULT,
            most_packed=self.most_packed,
        )


class SpreadKeyedStateBackend(RocksDBKeyedStateBackend):
    """Gives each entry a row of its own."""

    def table(self, spec):
        table = super().table(spec)
        if spec.shape is not Shape.SINGLE:
            table.most_packed = 1
        return table


@attrs.frozen
class Spread(StateBackend):
    """Makes these."""

    path: str

    def create_keyed_state_backend(self, scope, owner):
        return SpreadKeyedStateBackend(scope, owner, (self.path,), PredefinedOptions.DEFAULT)


@pytest.fixture(scope="module")
def scratch():
    """A directory of the module."""
    with tempfile.TemporaryDirectory() as path:
        yield path


class TestEmbeddedRocksDBStateBackend(StateBackendConformance):
    """As it is."""

    @pytest.fixture(autouse=True)
    def _place(self, scratch):
        self._scratch = scratch

    def state_backend(self) -> StateBackend:
        """In a directory of the module."""
        return in_directory(self._scratch)


class TestRestless(TestEmbeddedRocksDBStateBackend):
    """With entries on the disk."""

    def state_backend(self) -> StateBackend:
        """In a directory of the module."""
        return Restless(self._scratch)


class TestSpread(TestEmbeddedRocksDBStateBackend):
    """With a row on the disk for each entry of a key that has more than one."""

    def state_backend(self) -> StateBackend:
        """In a directory of the module."""
        return Restless(self._scratch, most_packed=1)


_MACHINES = tempfile.mkdtemp(prefix="pyflinklike-tests-")
HISTORIES = settings(max_examples=max(8, settings().max_examples // 5), stateful_step_count=30)


@pytest.fixture(scope="module", autouse=True)
def _without_machines():
    yield
    shutil.rmtree(_MACHINES, ignore_errors=True)


TestAgreement = agreement_machine(HashMapStateBackend(), in_directory(_MACHINES)).TestCase
TestAgreement.settings = HISTORIES

TestSpreadAgreement = agreement_machine(HashMapStateBackend(), Spread(_MACHINES)).TestCase
TestSpreadAgreement.settings = HISTORIES

TestBackgroundAgreement = agreement_machine(in_directory(_MACHINES), background=True).TestCase
TestBackgroundAgreement.settings = HISTORIES


# Keys


@pytest.mark.parametrize(
    "key",
    [
        *(None, True, 0, -1, 2**63, -(2**3000), 1.5, nan, "", "a\x00b", "\ud800", b"\x00\xff"),
        *(date(2024, 1, 1), Instant(-1, 5), Pickled(b"\x80\x00x"), EncodedKey(b"\x21\x00")),
        *((), (None,), ("a", (1, None), b""), Row(a=1, b=("x", None)), ("a", "\x00")),
    ],
    ids=repr,
)
def test_a_key_is_decoded_as_it_was(key):
    """Equal, of the same type, and whatever follows it."""
    actual, end = decode(b"!" + encode(key) + encode("next"), 1)

    assert (repr(key), type(key), 1 + len(encode(key))) == (repr(actual), type(actual), end)


def test_a_nan_is_decoded_as_the_one_that_types_freeze_to():
    """A dict finds no other."""
    assert decode(encode((nan,)), 0)[0][0] is nan


def test_no_key_of_an_unknown_type_is_kept():
    """Equal keys could get different bytes."""
    with pytest.raises(StateValueError, match="frozenset"):
        encode(frozenset())


def test_a_key_does_not_see_the_entries_of_a_longer_one(tmp_path):
    """Not even where one key's bytes begin with another's."""
    backend, tables = opened(in_directory(tmp_path), 0)
    for key in ("a", "a\x00b", "ab"):
        backend.scope.key = key
        tables["map"].put(1, key)
        tables["list"].append(key)
    kept(backend, WorkingState(0, NONCE, tables=backend.groups[0]))
    group = backend.take_warm(0)
    backend.enter(0, group.tables)
    backend.scope.key = "a"

    assert ([(1, "a")], ["a"]) == (tables["map"].items(), tables["list"].elements())
    backend.close()


# Working state that outlives its task

NONCE = bytes(range(16))


def opened(state_backend, index, owner="query/0"):
    """A keyed backend in a new group, and its tables."""
    backend = state_backend.create_keyed_state_backend(Scope(), owner)
    tables = {name: backend.table(spec) for name, spec in SPECS.items()}
    backend.groups = {index: {}}
    backend.enter(index, backend.groups[index])
    return backend, tables


def kept(backend, group):
    """Commit and keep a group."""
    backend.drain()
    backend.keep_warm(group)


def fill(tables, scope, number=5):
    """Entries of three keys in all tables."""
    for key in "abc":
        scope.key = key
        tables["value"].put(None, f"value {key}")
        tables["map"].multi_put([(at, f"{key}{at}") for at in reversed(range(number))])
        for at in range(number):
            tables["list"].append(f"{key}{at}")


def leave(path, nonce=NONCE, **options):
    """A first task that fills group 3 and ends."""
    backend, tables = opened(in_directory(path), 3, **options)
    fill(tables, backend.scope)
    kept(backend, WorkingState(3, nonce, 7, tables=backend.groups[3]))
    backend.close()


def found(path, **options):
    """A second task: its backend, its tables, and what it took of group 3."""
    backend, tables = opened(in_directory(path), 3, **options)
    group = backend.take_warm(3)
    backend.enter(3, WorkingState(3).tables if group is None else group.tables)
    return backend, tables, group


def contents(backend):
    """All entries, by table."""
    return {
        each.spec.name: sorted(zip(each.keys, each.user_keys, each.entries), key=repr)
        for each in backend.contents()
        if len(each)
    }


def only_directory(path) -> Path:
    """Of the one owner there."""
    (root,) = Path(path).iterdir()
    (directory,) = root.iterdir()
    return directory


def test_working_state_outlives_its_task(tmp_path):
    """With its nonce, its entries and its counts."""
    leave(tmp_path)
    backend, tables, group = found(tmp_path)
    backend.scope.key = "b"

    assert (NONCE, 7, 33) == (group.nonce, group.next_sequence, backend.count())
    assert "value b" == tables["value"].get(None)
    assert ["b3", MISSING] == tables["map"].multi_get([3, 9])
    assert [0, 1, 2, 3, 4] == [user_key for user_key, _ in tables["map"].items()]
    assert [f"b{at}" for at in range(5)] == tables["list"].elements()
    backend.close()


def test_what_a_batch_changes_lies_over_what_is_on_disk(tmp_path):
    """Through three tasks: puts, deletions, clears and appends, read before and after."""
    leave(tmp_path)
    for _ in range(2):
        backend, tables, group = found(tmp_path)
        backend.scope.key = "a"
        tables["list"].delete(4)
        tables["list"].append("new")
        tables["map"].delete(0)
        tables["map"].put(-1, "new")
        backend.scope.key = "b"
        tables["value"].delete(None)
        tables["map"].clear()
        tables["map"].put(2, "after")
        before = contents(backend)
        size = backend.count()
        kept(backend, group)
        backend.close()
        backend, tables, group = found(tmp_path)

        assert (before, size) == (contents(backend), backend.count())
        assert size == sum(map(len, before.values()))
        backend.scope.key = "a"
        assert ["a0", "a1", "a2", "a3", "new"] == tables["list"].elements()
        assert [-1, 1, 2, 3, 4] == [user_key for user_key, _ in tables["map"].items()]
        backend.close()


def test_a_list_with_gaps_on_disk_keeps_its_order(tmp_path):
    """Positions are used again before the entry that lay behind them is gone from the disk."""
    backend, tables = opened(in_directory(tmp_path), 3)
    backend.scope.key = "a"
    for at in range(6):
        tables["list"].append(f"old {at}")
    for at in range(1, 5):
        tables["list"].delete(at)
    kept(backend, WorkingState(3, NONCE, tables=backend.groups[3]))
    group = backend.take_warm(3)
    backend.enter(3, group.tables)
    before = tables["list"].elements()
    tables["list"].delete(5)
    for at in range(1, 8):
        tables["list"].append(f"new {at}")

    assert ["old 0", "old 5"] == before
    assert ["old 0", *(f"new {at}" for at in range(1, 8))] == tables["list"].elements()
    backend.close()


def test_what_was_not_kept_is_not_there(tmp_path):
    """A batch that failed leaves the former state and its nonce."""
    leave(tmp_path)
    backend, tables, _ = found(tmp_path)
    before = contents(backend)
    backend.scope.key = "a"
    tables["list"].clear()
    tables["value"].put(None, "lost")
    backend.close()
    backend, tables, group = found(tmp_path)

    assert (NONCE, before) == (group.nonce, contents(backend))
    backend.close()


def test_a_group_that_was_rebuilt_replaces_what_is_on_disk(tmp_path):
    """Nothing of the former state is left among the new one."""
    leave(tmp_path)
    backend, tables = opened(in_directory(tmp_path), 3)
    stale = backend.take_warm(3)
    rebuilt = WorkingState(3, bytes(16))
    backend.enter(3, rebuilt.tables)
    backend.scope.key = "z"
    tables["value"].put(None, "only")
    kept(backend, rebuilt)
    backend.close()
    backend, tables, group = found(tmp_path)

    assert (NONCE, bytes(16)) == (stale.nonce, group.nonce)
    assert {"value": [("z", None, "only")]} == contents(backend)
    backend.close()


def test_what_a_group_caught_up_with_is_on_disk_in_the_next_task(tmp_path):
    """Although it does not count as changed: puts, deletions and a clear of another worker."""
    leave(tmp_path)
    backend, tables, group = found(tmp_path)
    backend.apply(TableChanges(VALUE, [], ["a", "z"], [None, None], [MISSING, "new"]))
    for spec in (MAP, LIST):
        changes = TableChanges(spec, ["c"], ["a", "a", "z"], [0, 9, 1], [MISSING, "new", "new"])
        backend.apply(changes)
    backend.scope.key = "a"
    tables["list"].append("last")
    before, size = contents(backend), backend.count()
    kept(backend, group)
    backend.close()
    backend, _, _ = found(tmp_path)

    assert (3 + 2 * (10 + 1) + 1, before, size) == (size, contents(backend), backend.count())
    assert size == sum(map(len, before.values()))
    assert ("a", 10, "last") in before["list"]
    backend.close()


def test_a_state_that_is_not_declared_yet_is_not_lost(tmp_path):
    """Its group is rebuilt from the log, which has it."""
    leave(tmp_path)
    backend = in_directory(tmp_path).create_keyed_state_backend(Scope(), "query/0")
    backend.table(VALUE)

    assert None is backend.take_warm(3)
    backend.close()


def test_a_key_that_outgrows_its_row_is_spread_and_shrinks_to_nothing(tmp_path):
    """It is what it was through all tasks: in a row, a row for each entry, again without any."""
    group, sizes = None, []
    for begin, end in [(0, 5), (5, 300), (300, 303), (0, 0)]:
        backend, tables, group = found(tmp_path)
        group = group or WorkingState(3, NONCE, tables=backend.groups[3])
        backend.enter(3, group.tables)
        for backend.scope.key in "ab":
            tables["map"].multi_put([(at, f"m{at}") for at in range(begin, end)])
            for at in range(begin, end):
                tables["list"].append(f"l{at}")
            if not end:
                for at in range(303):
                    tables["map"].delete(at)
                tables["list"].clear()
        kept(backend, group)
        backend.close()
        backend, tables, group = found(tmp_path)
        backend.scope.key = "b"
        sizes.append(backend.count())

        assert [(at, f"m{at}") for at in range(end)] == tables["map"].items()
        assert [f"l{at}" for at in range(end)] == tables["list"].elements()
        backend.close()

    assert [20, 1200, 1212, 0] == sizes
    backend, _, group = found(tmp_path)
    begin, end = (rocksdb._range_of(at)[0] for at in (3, 4))
    assert [] == list(backend._opened().items(begin, end))
    backend.close()


@pytest.mark.parametrize("user_key", [nan, (nan, 1), Pickled(b"x"), Row(a=nan), date(2024, 1, 1)])
def test_a_user_key_of_any_type_is_found_again_in_the_next_task(tmp_path, user_key):
    """A dict finds a NaN only as the very object that was put in."""
    spec = TableSpec("any", Shape.MAP, "map", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
    backend = in_directory(tmp_path).create_keyed_state_backend(Scope(), "query/0")
    table = backend.table(spec)
    group = WorkingState(3, NONCE)
    for number in range(3):
        backend.enter(3, group.tables)
        backend.scope.key = "a"
        assert (number - 1 if number else MISSING) == table.get(user_key)
        table.put(user_key, number)
        kept(backend, group)
        group = backend.take_warm(3)

    assert 1 == group.tables["any"].size
    backend.close()


@pytest.mark.parametrize("most_ahead", [1, 2**24])
def test_a_batch_that_reads_ahead_reads_the_same(tmp_path, most_ahead):
    """Whether or not all rows of the group fit into memory."""
    count = 2500
    backend, tables = opened(in_directory(tmp_path), 3)
    group = WorkingState(3, NONCE, tables=backend.groups[3])
    for number in range(4):
        backend.enter(3, group.tables)
        for key in range(0, 2 * count, 2):
            backend.scope.key = key
            value, mapped = tables["value"].get(None), tables["map"].get(key)
            assert (value, mapped) == ((str(number),) * 2 if number else (MISSING,) * 2)
            backend.scope.key = key + 1
            assert MISSING is tables["value"].get(None)
            backend.scope.key = key
            tables["value"].put(None, str(number + 1))
            tables["map"].put(key, str(number + 1))
        assert 2 * count == backend.count()
        kept(backend, group)
        backend.enter(3, group.tables)
        group = backend.take_warm(3)
        for table in tables.values():
            table.most_ahead = most_ahead

    assert [False, True, True] == [group.tables[name].is_dense for name in ("list", "map", "value")]
    backend.close()


def test_a_group_in_another_layout_is_read_from_the_log(tmp_path, monkeypatch):
    """What an older version has left on the disk is not taken for ours."""
    leave(tmp_path)
    monkeypatch.setattr(rocksdb, "_LAYOUT", 3)
    backend, _, group = found(tmp_path)

    assert None is group
    backend.close()


def test_a_sweep_goes_on_in_the_next_task(tmp_path):
    """It comes by every entry although no task sweeps more than one key's."""
    leave(tmp_path)
    seen = []
    for _ in range(3):
        backend, tables, group = found(tmp_path)
        tables["map"].sweep(3, lambda entry: bool(seen.append(entry)))
        kept(backend, group)
        backend.close()

    assert sorted(f"{key}{at}" for key in "abc" for at in range(5)) == sorted(seen)


def test_owners_do_not_see_each_other(tmp_path):
    """Each has a directory."""
    leave(tmp_path, owner="query/0")
    backend, _, group = found(tmp_path, owner="query/1")

    assert None is group
    backend.close()


# The directory


def test_the_directory_is_its_users_alone(tmp_path):
    """No one else may read it, nor plant a pickle in it."""
    leave(tmp_path)
    directory = only_directory(tmp_path)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (directory, directory.parent)]

    assert ([0o700, 0o700], f"pyflinklike-{os.getuid()}") == (modes, directory.parent.name)


def test_a_directory_open_to_others_is_refused(tmp_path):
    """Somebody may have prepared it."""
    leave(tmp_path)
    only_directory(tmp_path).parent.chmod(0o777)

    with pytest.raises(HostError, match="only this user"):
        found(tmp_path)


@pytest.mark.parametrize("how", ["deleted", "emptied", "manifest", "data"])
def test_a_damaged_directory_is_begun_anew(tmp_path, how):
    """By this attempt or, where the damage shows only on reading, by the next one."""
    leave(tmp_path)
    directory = only_directory(tmp_path)
    if how in ("deleted", "emptied"):
        shutil.rmtree(directory)
        if how == "emptied":
            directory.mkdir(mode=0o700)
    else:
        pattern = "MANIFEST*" if how == "manifest" else "*.sst"
        for file in directory.glob(pattern):
            file.write_bytes(b"\xaa" * file.stat().st_size)
    group = "unread"
    for _ in range(2):
        try:
            backend, _, group = found(tmp_path)
            backend.close()
            break
        except HostError:  # what was damaged is deleted
            continue

    assert None is group
    leave(tmp_path)
    assert NONCE == found_nonce(tmp_path)


def found_nonce(path):
    """The nonce on disk."""
    backend, _, group = found(path)
    backend.close()
    return group and group.nonce


def test_an_attempt_that_finds_the_directory_taken_works_elsewhere(tmp_path):
    """Cold, and leaves nothing behind."""
    leave(tmp_path)
    first, _, _ = found(tmp_path)
    second, tables, group = found(tmp_path)
    fill(tables, second.scope)
    kept(second, WorkingState(3, bytes(16)))
    second.close()
    first.close()

    assert (None, NONCE) == (group, found_nonce(tmp_path))
    assert 1 == len(list(only_directory(tmp_path).parent.iterdir()))


def test_an_attempt_in_another_process_finds_the_directory_taken(tmp_path):
    """The lock is the system's."""
    leave(tmp_path)
    first, _, _ = found(tmp_path)
    code = (
        "import sys; sys.path[:0] = ['tests/backends', 'tests/support']; import test_rocksdb_backend as test; "
        f"print(test.found_nonce({str(tmp_path)!r}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    first.close()

    assert (0, "None") == (run.returncode, run.stdout.strip()), run.stderr


def test_a_place_that_is_no_directory_is_a_clear_error(tmp_path):
    """With what to do."""
    (tmp_path / "file").write_text("")

    with pytest.raises(HostError, match="set_db_storage_paths"):
        found(tmp_path / "file" / "below")


def test_the_directories_of_queries_that_are_gone_are_deleted(tmp_path):
    """After a day, and unless somebody has them open."""
    leave(tmp_path, owner="old")
    leave(tmp_path, owner="young")
    held, _, _ = found(tmp_path, owner="held")
    root = next(tmp_path.iterdir())
    long_ago = time.time() - 2 * 24 * 60 * 60
    for path in root.iterdir():
        if not path.name.startswith("young"):
            os.utime(path, (long_ago, long_ago))
    leave(tmp_path, owner="new")
    names = sorted(path.name.partition("-")[0] for path in root.iterdir())
    held.close()

    assert ["held", "new", "young"] == names


def test_without_paths_spark_says_where(tmp_path, monkeypatch):
    """One of its local directories, the same one every time."""
    places = [str(tmp_path / name) for name in "abc"]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(places))
    for _ in range(2):
        backend = EmbeddedRocksDBStateBackend().create_keyed_state_backend(Scope(), "query/0")
        backend.take_warm(0)
        backend.close()

    assert 1 == len(list(tmp_path.iterdir()))


def test_a_missing_package_is_named(monkeypatch):
    """When the backend is made."""
    monkeypatch.setitem(sys.modules, "rocksdict", None)

    with pytest.raises(HostError, match=r"pip install 'pyflinklike\[rocksdb\]'"):
        EmbeddedRocksDBStateBackend().create_keyed_state_backend(Scope(), "query/0")


@pytest.mark.parametrize("options", list(PredefinedOptions), ids=lambda options: options.name)
def test_rocksdb_takes_all_predefined_options(tmp_path, options):
    """They are settings of its own."""
    backend = in_directory(tmp_path)
    backend.set_predefined_options(options)
    keyed, tables = opened(backend, 0)
    fill(tables, keyed.scope)
    kept(keyed, WorkingState(0, NONCE, tables=keyed.groups[0]))
    keyed.close()

    text = next(only_directory(tmp_path).glob("OPTIONS-*")).read_text()
    dynamic = "SPINNING" in options.name
    assert f"level_compaction_dynamic_level_bytes={str(dynamic).lower()}" in text


# Snapshots


class Everything(KeyedProcessFunction):
    """One state of three kinds, and timers."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("map", Types.STRING(), Types.LONG())
        )

    def process_element(self, value, ctx):
        self.value.update((self.value.value() or 0) + value)
        self.list.add(value)
        self.map.put(str(value % 3), value)
        ctx.timer_service().register_event_time_timer(value)
        yield self.value.value(), list(self.list), sorted(self.map.items())

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp


@pytest.mark.parametrize("backwards", [False, True])
def test_a_snapshot_moves_between_backends(tmp_path, backwards):
    """Both ways, and the function goes on as if nothing had happened."""
    backends = [HashMapStateBackend(), in_directory(tmp_path)]
    if backwards:
        backends.reverse()
    selector = lambda value: value % 2  # noqa: E731
    with (
        KeyedProcessHarness(Everything(), selector, backends[0]) as before,
        KeyedProcessHarness(Everything(), selector) as model,
    ):
        for value in range(10):
            assert model.process_element(value) == before.process_element(value)
        with KeyedProcessHarness(Everything(), selector, backends[1], before.snapshot()) as after:
            for value in range(5, 15):
                assert model.process_element(value) == after.process_element(value)
            assert sorted(model.process_watermark(99)) == sorted(after.process_watermark(99))


# Settings


def test_settings_are_read_back():
    """The setters change the object and return None."""
    backend = EmbeddedRocksDBStateBackend(True)
    returned = [
        backend.set_db_storage_paths("/a", "file:///b"),
        backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED),
    ]

    assert [None, None] == returned
    assert ["/a", "/b"] == backend.get_db_storage_paths()
    assert PredefinedOptions.FLASH_SSD_OPTIMIZED is backend.get_predefined_options()
    assert backend.is_incremental_checkpoints_enabled()
    assert backend == pickle.loads(pickle.dumps(backend))
    assert backend != EmbeddedRocksDBStateBackend(True)


def test_the_defaults_are_flinks():
    """As PyFlink's getters give them."""
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("/a")
    backend.set_db_storage_paths()

    assert ([], False, None, 4, PredefinedOptions.DEFAULT) == (
        backend.get_db_storage_paths(),
        backend.is_incremental_checkpoints_enabled(),
        backend.get_options(),
        backend.get_number_of_transfer_threads(),
        backend.get_predefined_options(),
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda b: EmbeddedRocksDBStateBackend("yes"), DeclarationTypeError, "'yes'"),
        (lambda b: EmbeddedRocksDBStateBackend(None, object()), DeclarationError, "Java"),
        (lambda b: b.set_db_storage_paths(1), DeclarationTypeError, "str"),
        (lambda b: b.set_db_storage_paths("a/b"), DeclarationValueError, "absolute"),
        (lambda b: b.set_db_storage_paths("hdfs://a/b"), DeclarationValueError, "local"),
        (lambda b: b.set_predefined_options(3), DeclarationTypeError, "PredefinedOptions"),
        (lambda b: b.set_options("a.B"), DeclarationValueError, "a.B"),
        (lambda b: b.set_number_of_transfer_threads(8), DeclarationError, "8"),
    ],
)
def test_what_cannot_be_set_says_so(call, error, text):
    """With the reason."""
    with pytest.raises(error, match=text):
        call(EmbeddedRocksDBStateBackend())


def test_a_keyed_backend_keeps_the_settings_it_was_made_with(tmp_path):
    """A setter called later changes the next one."""
    backend = in_directory(tmp_path / "first")
    keyed = backend.create_keyed_state_backend(Scope(), "query/0")
    backend.set_db_storage_paths(str(tmp_path / "second"))
    keyed.take_warm(0)
    keyed.close()

    assert ["first"] == [path.name for path in tmp_path.iterdir()]


# The names of Flink 1.x


@pytest.mark.parametrize(
    ("make", "real"),
    [
        (MemoryStateBackend, HashMapStateBackend),
        (lambda: FsStateBackend("file:///checkpoints"), HashMapStateBackend),
        (lambda: RocksDBStateBackend("file:///checkpoints"), EmbeddedRocksDBStateBackend),
    ],
)
def test_a_name_of_flink_1_is_a_door_to_a_real_backend(make, real):
    """It warns, is a value, and works."""
    with pytest.warns(DeprecationWarning, match=real.__name__):
        backend = make()

    assert isinstance(backend, real)
    assert (backend, hash(backend)) == (pickle.loads(pickle.dumps(backend)), hash(backend))
    with KeyedProcessHarness(Everything(), lambda value: 0, backend) as harness:
        assert [(3, [3], [("0", 3)])] == harness.process_element(3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_settings_of_flink_1_are_read_back():
    """With Flink's defaults."""
    memory, fs = MemoryStateBackend(), FsStateBackend("file:///c")
    rocks = RocksDBStateBackend("file:///c", True)

    assert (5 * 1024**2, True) == (
        memory.get_max_state_size(),
        memory.is_using_asynchronous_snapshots(),
    )
    assert ("file:///c", 20480, 20480, True) == (
        fs.get_checkpoint_path(),
        fs.get_min_file_size_threshold(),
        fs.get_write_buffer_size(),
        fs.is_using_asynchronous_snapshots(),
    )
    assert (fs, True, 4) == (
        rocks.get_checkpoint_backend(),
        rocks.is_incremental_checkpoints_enabled(),
        rocks.get_number_of_transfering_threads(),
    )
    assert ["MemoryStateBackend", "FsStateBackend"] == [str(memory), str(fs)]


@pytest.mark.parametrize("door", [FsStateBackend, RocksDBStateBackend])
def test_a_place_for_checkpoints_is_required_as_in_flink(door):
    """Though nothing is put there."""
    with pytest.raises(DeclarationValueError, match="is required"):
        door()


def test_a_backend_of_ones_own_may_be_wrapped():
    """And nothing else."""
    backend = CustomStateBackend(HashMapStateBackend())
    with KeyedProcessHarness(Everything(), lambda value: 0, backend) as harness:
        assert [(3, [3], [("0", 3)])] == harness.process_element(3)
    with pytest.raises(DeclarationTypeError, match="StateBackend"):
        CustomStateBackend("mine")


def test_a_failed_write_is_a_clear_error_and_leaves_the_former_state(tmp_path, monkeypatch):
    """A full disk, say: the next attempt finds what was there."""
    leave(tmp_path)
    backend, tables, group = found(tmp_path)
    fill(tables, backend.scope, 9)
    backend.drain()
    monkeypatch.setattr(rocksdb_store.LocalStore, "_db", None, raising=False)
    store = backend._opened()
    store._db.close()
    with pytest.raises(HostError, match="set_db_storage_paths"):
        backend.keep_warm(group)
    backend.close()

    assert NONCE == found_nonce(tmp_path)
