# SPDX-License-Identifier: Apache-2.0
"""The command line on savepoints, which needs neither Spark nor Java."""

import datetime as dt
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from sealed_manifest import resealed

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.cli import main
from pyflinklike.cli.cells import length
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness


class Visits(KeyedProcessFunction):
    """State of some kinds, and timers."""

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", Types.STRING())
        last.enable_time_to_live(StateTtlConfig.new_builder(3_600_000).build())
        self.last = runtime_context.get_state(last)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.DOUBLE()))
        pages = MapStateDescriptor("pages", Types.STRING(), Types.LONG())
        self.pages = runtime_context.get_map_state(pages)
        shared = KeyValueStoreDescriptor("shared", Types.STRING(), Types.LONG(), scope="partition")
        self.shared = runtime_context.get_store(shared)

    def process_element(self, value, ctx):
        self.last.update(value.page)
        self.all.add(float(value.n))
        self.pages.put(value.page, (self.pages.get(value.page) or 0) + 1)
        self.shared.put(value.user, value.n)
        ctx.timer_service().register_event_time_timer(value.n * 1000)
        return []


VISITS = [("ann", "home", 1), ("bob", "home", 2), ("ann", "shop", 3), ("12", "home", 4)]


def saved(path, visits):
    """A savepoint of a harness after these visits, as a text."""
    with KeyedProcessHarness(
        Visits(), key_selector=lambda row: row.user, key_type=Types.STRING()
    ) as harness:
        harness.set_processing_time(1000)
        for user, page, n in visits:
            harness.process_element(Row(user=user, page=page, n=n), timestamp=n)
        write_savepoint(harness, path)
    return str(path)


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    """Of four visits."""
    return saved(tmp_path_factory.mktemp("cli") / "savepoint", VISITS)


@pytest.fixture
def ran(capsys):
    """Runs `pyflinklike state ...`: the exit code, what was printed, and the errors."""

    def run(*arguments):
        code = main(["state", *map(str, arguments)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def lines(ran):
    """The same with `--json`: the exit code and the objects."""

    def run(*arguments):
        code, out, _ = ran(*arguments, "--json")
        return code, [json.loads(line) for line in out.splitlines()]

    return run


def test_states_are_listed(ran, savepoint):
    """As plain text where no terminal is."""
    code, out, err = ran("list", savepoint)
    rows = [line.split()[1:3] for line in out.splitlines()[3:]]
    expected = [["all", "list"], ["last", "value"], ["pages", "map"], ["shared", "key-value"]]
    assert (0, expected, "") == (code, rows, err)


def test_a_list_counts_keys_and_timers(ran, lines, savepoint):
    """Once for all states of an operator."""
    told = ran("list", savepoint)[1].splitlines()[1]
    counts = [(row["keys"], row["timers"]) for row in lines("list", savepoint)[1]]

    assert ("Visits: 3 keys, 4 event-time timers", [(3, {"event_time": 4})] * 4) == (told, counts)


@pytest.mark.parametrize("kind", ["tuple", "nested", "double", "timestamp"])
def test_keys_of_each_type_are_counted(lines, tmp_path, kind):
    """Also those that Arrow does not group by, with nulls in them."""
    key_type, keys, _ = KEYS[kind]
    path = kept(tmp_path / "saved", [*keys, keys[0]], key_type)

    assert [len(keys)] == [row["keys"] for row in lines("list", path)[1]]


def test_a_list_is_json_too(lines, savepoint):
    """With all that is known of a state."""
    code, rows = lines("list", savepoint)
    told = [(row["name"], row["entries"], row["ttl"] and row["ttl"]["ms"]) for row in rows]
    expected = [("all", 4, None), ("last", 3, 3_600_000), ("pages", 4, None), ("shared", 3, None)]
    assert (0, expected) == (code, told)


def test_entries_are_shown_in_the_order_of_their_keys(ran, savepoint):
    """As many as are asked for, and a word if there are more."""
    code, out, err = ran("show", savepoint, "pages", "--limit", 2)
    expected = "key  user_key  value  key_group\n12   home      1      0\nann  home      1      0\n"
    assert (0, expected, "there are more than these 2; --limit 0 shows all\n") == (code, out, err)


def test_points_in_time_are_json_as_iso_and_in_ms(lines, savepoint):
    """In UTC."""
    _, rows = lines("show", savepoint, "last", "--limit", 1)
    expected = {
        "batch_id": None,
        "key": "12",
        "value": "home",
        "stamp": 1000,
        "expires_at": "1970-01-01T01:00:01.000Z",
        "expires_at_ms": 3_601_000,
        "key_group": 0,
    }
    assert [expected] == rows


def test_a_key_is_got(lines, savepoint):
    """Only its entries, in order."""
    code, rows = lines("get", savepoint, "all", "ann")
    assert (0, [1.0, 3.0]) == (code, [row["value"] for row in rows])


def test_a_text_of_digits_is_a_key_as_it_is(lines, savepoint):
    """Also within the quotes of JSON."""
    bare, quoted = lines("get", savepoint, "all", "12"), lines("get", savepoint, "all", '"12"')
    assert (0, [4.0], 0, [4.0]) == (
        *(bare[0], [row["value"] for row in bare[1]]),
        *(quoted[0], [row["value"] for row in quoted[1]]),
    )


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("all", "carl"), "state 'all' has no entry of key carl"),
        (("carl", "--all"), "no state has an entry of key carl"),
    ],
)
def test_a_key_that_is_not_there_is_told_and_an_exit_code(ran, savepoint, words, said, options):
    """The code is grep's; what reads the rows gets none."""
    told = f"savepoint '{savepoint}': {said}\n"
    assert (1, "", told) == ran("get", savepoint, *words, *options)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (604_800_000, "7 days"),
        (86_400_000, "1 day"),
        (129_600_000, "36 hours"),
        (5_400_000, "90 minutes"),
        (1_000, "1 second"),
        (1_500, "1,500 ms"),
        (0, "0 ms"),
    ],
)
def test_a_length_of_time_is_told_in_the_largest_whole_unit(milliseconds, text):
    """JSON has it in ms."""
    assert text == length(milliseconds)


def test_a_key_is_got_of_all_states(lines, savepoint):
    """Of those that are kept for keys."""
    code, rows = lines("get", savepoint, "bob", "--all")
    assert (0, ["all", "last", "pages"]) == (code, [row["state"] for row in rows])


def test_timers_are_counted_and_the_next_ones_shown(ran, savepoint):
    """In the order of time, whatever their keys."""
    code, out, _ = ran("timers", savepoint, "--due-before", "1970-01-01T00:00:04Z")
    counts, timers = out.split("\nthe next of Visits:\n")
    assert (0, ["Visits", "event_time", "3"]) == (code, counts.splitlines()[1].split()[:3])
    assert ["ann", "bob", "ann"] == [line.split()[0] for line in timers.splitlines()[1:]]


def test_a_healthy_savepoint_passes(ran, savepoint):
    """And what was looked at is told."""
    assert (0, "no damage found; checked 5 files, 18 entries\n", "") == ran("check", savepoint)


def test_a_cut_file_and_a_missing_one_are_both_found(lines, tmp_path):
    """`check` tells all that is wrong, and which file it is."""
    path = saved(tmp_path / "savepoint", VISITS)
    folder = tmp_path / "savepoint" / "operators" / "Visits" / "states"
    cut, missing = folder / "all" / "part-0.parquet", folder / "pages" / "part-0.parquet"
    cut.write_bytes(cut.read_bytes()[:-1])
    missing.unlink()
    code, found = lines("check", path)
    names = [each["message"].split("states/")[1].split("/")[0] for each in found]
    assert (1, ["file", "file"], ["all", "pages"]) == (code, [f["part"] for f in found], names)


def test_a_wrong_row_count_is_found(lines, tmp_path):
    """The manifest is compared with the files, too."""
    path = saved(tmp_path / "savepoint", VISITS)

    def one_more(fields):
        fields["operators"][0]["states"]["pages"]["rows"] += 1

    resealed(tmp_path / "savepoint", one_more)
    code, found = lines("check", path)
    assert (1, ["counts"]) == (code, [each["part"] for each in found])


def test_a_file_that_is_not_of_the_savepoint_is_found(lines, tmp_path):
    """Of a savepoint that was copied over another one: `*.parquet` would be the rows of both."""
    path = saved(tmp_path / "savepoint", VISITS)
    folder = tmp_path / "savepoint" / "operators" / "Visits" / "states" / "pages"
    (folder / "part-1.parquet").write_bytes((folder / "part-0.parquet").read_bytes())
    code, (found,) = lines("check", path)
    assert (1, True) == (code, found["message"].endswith("pages/part-1.parquet besides"))


def test_a_damaged_manifest_is_a_finding(lines, tmp_path):
    """Not a failure of the check."""
    path = saved(tmp_path / "savepoint", VISITS)
    (tmp_path / "savepoint" / "_manifest.json").write_text("{")
    code, found = lines("check", path)
    assert (1, ["manifest"]) == (code, [each["part"] for each in found])


def test_equal_savepoints_do_not_differ(ran, savepoint, tmp_path):
    """Whenever they were taken."""
    other = saved(tmp_path / "other", VISITS)
    assert (0, "no state differs\n", "") == ran("diff", savepoint, other)


def test_differences_are_told_entry_by_entry(lines, savepoint, tmp_path):
    """What came, what changed, and what is gone."""
    other = saved(tmp_path / "other", [*VISITS[1:], ("ann", "shop", 5), ("eve", "home", 6)])
    code, rows = lines("diff", savepoint, other)
    found = [
        (row["change"], row["key"], row["user_key"], row["before"], row["after"])
        for row in rows
        if row["state"] == "pages"
    ]
    assert 1 == code
    assert [
        ("delete", "ann", "home", 1, None),
        ("update", "ann", "shop", 1, 2),
        ("insert", "eve", "home", None, 1),
    ] == found


def test_timers_that_came_and_went_are_told(lines, ran, tmp_path):
    """Whether one is due says nothing of what changed; nothing but timers may differ."""
    one, other = (saved(tmp_path / name, VISITS) for name in ("one", "other"))
    with KeyedProcessHarness(
        Visits(),
        key_selector=lambda row: row.user,
        key_type=Types.STRING(),
        restore=open_savepoint(one),
    ) as harness:
        harness.process_watermark(500)
        harness.process_element(Row(user="ann", page="home", n=9), timestamp=600)
        write_savepoint(harness, other, mode="overwrite")
    code, rows = lines("diff", one, other)
    timers = [row for row in rows if row["state"] == "timers"]
    told = [(row["change"], row["key"], row["domain"], row["timestamp"]) for row in timers]
    assert (1, [("insert", "ann", "event_time", 9000)]) == (code, told)
    assert (1, True) == ((back := ran("diff", other, one))[0], "delete" in back[1].splitlines()[-1])


def test_in_csv_an_empty_text_is_told_from_none(ran, tmp_path):
    """And what CSV has no form for is JSON."""
    path = saved(tmp_path / "savepoint", [("", 'a,"b"', 1)])
    assert 0 == ran("export", path, tmp_path / "out", "--format", "csv")[0]
    files = {file.parent.name: file for file in (tmp_path / "out").rglob("*.csv")}
    told = {name: files[name].read_text().splitlines() for name in ("last", "pages")}
    assert {
        "last": [
            '"key","value","stamp","key_group"',
            '"","a,""b""","1000","0"',
        ],
        "pages": ['"key","user_key","value","key_group"', '"","a,""b""","1","0"'],
    } == told


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_all_is_exported(ran, savepoint, tmp_path, kind):
    """A folder for each state, and one for the timers."""
    code, *_ = ran("export", savepoint, tmp_path / "out", "--format", kind)
    folders = sorted(
        str(file.parent.relative_to(tmp_path / "out" / "operators" / "Visits"))
        for file in (tmp_path / "out").rglob(f"*.{kind}")
    )
    states = ["states/all", "states/last", "states/pages", "states/shared"]
    assert (0, [*states, "timers"]) == (code, folders)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "SAVEPOINT", "page"], "did you mean 'pages'?"),
        (["show", "SAVEPOINT", "pages", "--where", "value > 1"], "open its Parquet files"),
        (["show", "SAVEPOINT", "pages", "--batch", "3"], "leave it out"),
        (["show", "SAVEPOINT", "pages", "--operator", "other"], "its operators are ['Visits']"),
        (["get", "SAVEPOINT", "shared", "ann"], "look at it with `show`"),
        (["list", "/nowhere/at/all"], "give the checkpointLocation of a query"),
        (["export", "SAVEPOINT", "SAVEPOINT"], "give another"),
        (["timers", "SAVEPOINT", "--due-before", "soon"], "write 2026-11-23T02:00:00Z"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(ran, savepoint, arguments, words):
    """With the remedy, without a traceback, and with exit code 2."""
    given = [savepoint if each == "SAVEPOINT" else each for each in arguments]
    code, out, err = ran(*given)
    assert (2, "", True, 1) == (code, out, words in err, len(err.splitlines()))


def test_wrong_usage_is_the_same_exit_code(ran, savepoint):
    """Whether click sees it or the command."""
    assert [2, 2, 2] == [
        ran("list")[0],
        ran("get", savepoint, "all")[0],
        ran("diff", savepoint)[0],
    ]


def test_nothing_in_a_value_steers_the_terminal(ran, tmp_path):
    """Neither control characters nor what rich takes for its own marks."""
    path = saved(tmp_path / "savepoint", [("a\x1b[31m\n[red]", "home", 1)])
    _, out, _ = ran("show", path, "pages")
    assert "a\\u001b[31m\\n[red]  home      1      0" == out.splitlines()[1]


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
def test_a_reader_that_has_seen_enough_is_no_failure(savepoint, options):
    """As `head` is, which closes the pipe; 1 would be a finding."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pyflinklike", "state", "show", savepoint, "all", *options]
    done = subprocess.run(command, check=False, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (0, b"") == (done.returncode, done.stderr)


_NO_SPARK = """
import sys
from pyflinklike.cli.cells import length
from pyflinklike.cli import main
code = main(["state", "list", sys.argv[1]])
assert not any(name.partition(".")[0] in ("pyspark", "py4j", "pandas") for name in sys.modules)
sys.exit(code)
"""


def test_a_savepoint_needs_no_spark(savepoint):
    """PySpark is not imported even where it is installed."""
    done = subprocess.run([sys.executable, "-c", _NO_SPARK, savepoint], check=False)
    assert 0 == done.returncode


_NO_CLICK = """
import sys
sys.modules["click"] = None
from pyflinklike.cli.cells import length
from pyflinklike.cli import main
sys.exit(main(["state", "list", "x"]))
"""


def test_missing_packages_are_named():
    """With what installs them."""
    done = subprocess.run(
        [sys.executable, "-c", _NO_CLICK], check=False, capture_output=True, text=True
    )
    assert (2, True) == (done.returncode, "pip install '.[cli]'" in done.stderr)


# Keys of a harness


class Kept(KeyedProcessFunction):
    """Keeps how many elements a key had."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        return []


NOON = dt.datetime(2026, 11, 24, 12)
KEYS = {
    "long": (Types.LONG(), [5, 6], "5"),
    "int": (Types.INT(), [5, 6], "5"),
    "boolean": (Types.BOOLEAN(), [True, False], "true"),
    "double": (Types.DOUBLE(), [0.5, 1.5], "0.5"),
    "date": (Types.SQL_DATE(), [NOON.date(), dt.date.min], "2026-11-24"),
    "timestamp": (Types.SQL_TIMESTAMP(), [NOON, dt.datetime.min], "2026-11-24T12:00:00"),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"\x01", b""], "0x01"),
    "tuple": (
        Types.TUPLE([Types.STRING(), Types.SQL_DATE()]),
        [("a", NOON.date()), ("b", NOON.date()), ("a", None)],
        '["a", "2026-11-24"]',
    ),
    "nested": (
        Types.TUPLE([Types.TUPLE([Types.LONG()]), Types.STRING()]),
        [((1,), "a"), ((2,), "a")],
        '[[1], "a"]',
    ),
}


def kept(path, keys, key_type=None, restore=None):
    """A savepoint of a harness that had an element of each of these keys."""
    with KeyedProcessHarness(
        Kept(), lambda key: key, key_type=key_type, restore=restore
    ) as harness:
        for key in keys:
            harness.process_element(key)
        write_savepoint(harness, path)
    return str(path)


def test_a_tuple_of_another_length_is_refused(ran, tmp_path):
    """The message tells the type and shows an array."""
    key_type, keys, _ = KEYS["tuple"]
    path = kept(tmp_path / "saved", keys, key_type)

    code, _, told = ran("get", path, "count", '["a"]')
    assert (2, True) == (
        code,
        "with the 2 values of column 'key', which is struct<f0:string" in told,
    )


@pytest.mark.parametrize("kind", KEYS)
def test_a_harness_that_went_on_from_a_savepoint_writes_keys_that_can_be_read(
    lines, tmp_path, kind
):
    """Also one that is not told their type."""
    key_type, keys, text = KEYS[kind]
    first = kept(tmp_path / "first", keys, key_type)
    second = kept(tmp_path / "second", keys, restore=open_savepoint(first))

    code, found = lines("get", second, "count", text)
    assert (0, [2]) == (code, [each["value"] for each in found])


class CountedInColumns(KeyedBatchFunction):
    """The same, of columns."""

    def open(self, runtime_context):
        self.count = runtime_context.get_column_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, batch, ctx):
        self.count.put(batch.groups.counts)
        return


def test_the_names_of_key_columns_outlive_a_harness(lines, tmp_path):
    """One of columns tells them, and one that goes on from its savepoint keeps them."""
    first, key_type = tmp_path / "first", Types.TUPLE([Types.STRING(), Types.LONG()])
    with KeyedBatchHarness(CountedInColumns(), ["user", "day"], key_type=key_type) as harness:
        harness.process_batch({"user": ["ann", "bob"], "day": [1, 2]})
        write_savepoint(harness, first)
    second = kept(tmp_path / "second", [("ann", 1)], restore=open_savepoint(first))

    code, found = lines("get", second, "count", '["ann", 1]')
    assert (0, [("ann", 1, 2)]) == (
        code,
        [(each["user"], each["day"], each["value"]) for each in found],
    )


def test_a_key_that_the_columns_of_the_savepoint_cannot_hold_is_refused(tmp_path):
    """The harness writes no savepoint that nobody can read."""
    first = kept(tmp_path / "first", [1, 2], Types.LONG())
    with pytest.raises(IncompatibleStateError, match=r"key columns \(key int64\), got .*'five'"):
        kept(tmp_path / "second", ["five"], restore=open_savepoint(first))
