# SPDX-License-Identifier: Apache-2.0
"""What a restart of a program would do, asked of a savepoint: `pyflinklike state explain`."""

import json
import sys

import attrs
import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.cli import main
from pyflinklike.state_processor import write_savepoint
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of
from pyflinklike.testing import KeyedProcessHarness

HERE = __name__


def ttl(milliseconds):
    """Of what stays although it has expired."""
    return StateTtlConfig.new_builder(milliseconds).disable_cleanup_in_background().build()


class Seen(KeyedProcessFunction):
    """Version 1."""

    TTL = ttl(1000)
    VALUE = Types.LONG()

    def open(self, runtime_context):
        last = ValueStateDescriptor("last", self.VALUE)
        if self.TTL is not None:
            last.enable_time_to_live(self.TTL)
        self.last = runtime_context.get_state(last)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(value.n)
        self.all.add(value.n)
        ctx.timer_service().register_event_time_timer(value.n)
        return []


class Longer(Seen):
    """With a longer TTL."""

    TTL = ttl(5000)


class Shorter(Seen):
    """With a shorter one."""

    TTL = ttl(10)


class Half(Seen):
    """With one that ends at the stamp of the first entry."""

    TTL = ttl(1900)


class Forever(Seen):
    """Without."""

    TTL = None


class Texts(Seen):
    """With values of a type that numbers are not read as."""

    VALUE = Types.STRING()


class Grown(Seen):
    """With values of a type into which the stored one grows."""

    VALUE = Types.BIG_INT()


class Other(KeyedProcessFunction):
    """One state of before, and a new one."""

    def open(self, runtime_context):
        runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        return []


class Timed(Seen):
    """With timers that the former time mode cannot fire."""

    def on_timer(self, timestamp, ctx):
        ctx.timer_service().register_processing_time_timer(timestamp)
        return []


class Broken(Seen):
    """Cannot be opened."""

    def open(self, runtime_context):
        raise ValueError("no such file")


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    """Of records at 100, 900 and 2,000 ms; it is 2,000."""
    path = tmp_path_factory.mktemp("explain") / "savepoint"
    with KeyedProcessHarness(
        Seen(), key_selector=lambda row: row.user, key_type=Types.STRING()
    ) as harness:
        for n, user in enumerate(["ann", "bob", "eve"], 1):
            harness.set_processing_time([100, 900, 2000][n - 1])
            harness.process_element(Row(user=user, n=n), timestamp=n)
        write_savepoint(harness, path)
    # As take_savepoint notes the times of a stream's batch.
    place = savepoint_location_of(path)
    place.finish(attrs.evolve(place.manifest(), processing_time=2000, watermark=0))
    return str(path)


@pytest.fixture
def explained(savepoint, capsys):
    """Explains a restart of a class of this module: exit code, outcomes and notes by state."""

    def explain(name, *arguments):
        address = name if ":" in name else f"{HERE}:{name}"
        code = main(["state", "explain", savepoint, "--function", address, "--json", *arguments])
        told = capsys.readouterr()
        rows = map(json.loads, told.out.splitlines())
        return code, {row["state"]: (row["outcome"], row["note"]) for row in rows}, told.err

    return explain


def test_the_same_program_changes_nothing(explained):
    """And its timers are counted."""
    same = {"all": ("same", ""), "last": ("same", ""), "timers": ("same", "3 registered")}
    assert (0, same, "") == explained("Seen")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("Longer", "5 seconds, was 1 second: 2 entries that had expired come back"),
        ("Shorter", "10 ms, was 1 second: 0 entries expire at once"),
        ("Half", "1,900 ms, was 1 second: 1 entries that had expired come back"),
        ("Forever", "TTL switched off: all that is stored stays, expired or not"),
    ],
)
def test_what_a_changed_ttl_does_is_counted(explained, program, words):
    """By the clock of the savepoint, at 2,000 ms: two of three entries had expired under 1,000 ms."""
    code, found, _ = explained(program)
    outcome, note = found["last"]
    assert (0, "same", True) == (code, outcome, words in note), note


def test_states_that_come_and_go_are_told_apart(explained):
    """What is left over stays in the log."""
    code, found, _ = explained("Other")
    outcomes = {name: outcome for name, (outcome, _) in found.items()}
    assert (0, {"all": "same", "count": "new", "last": "left over", "timers": "same"}) == (
        code,
        outcomes,
    )


def test_a_type_that_does_not_fit_is_refused_with_the_message_of_a_restart(explained):
    """By the very check that a restart makes."""
    code, found, _ = explained("Texts")
    outcome, note = found["last"]
    expected = "restored state keeps the value type it was written with, 'Long', got 'String'"
    assert (1, "refused", True) == (code, outcome, expected in note), note


def test_a_type_that_grows_migrates(explained):
    """Which is no refusal."""
    code, found, _ = explained("Grown")
    assert (0, ("migrates", "Long is read as BigInteger")) == (code, found["last"])


def test_a_program_that_raises_is_one_sentence(explained):
    """With exit code 2, as any that is not there."""
    code, found, err = explained("Broken")
    assert (2, {}, True, 1) == (code, found, "no such file" in err, err.count("\n"))
    code, found, err = explained("no_such_module:Class")
    assert (2, {}, True, 1) == (code, found, "write module:Class" in err, err.count("\n"))
    code, found, err = explained(f"{HERE}:json")
    assert (2, {}, True, 1) == (code, found, "write module:Class" in err, err.count("\n"))


def test_a_savepoint_has_no_log_to_tell_of(savepoint, capsys):
    """Without a program there is nothing to say."""
    assert 2 == main(["state", "explain", savepoint])
    assert "give --function module:Class" in capsys.readouterr().err


class Talking(Seen):
    """Prints wherever it is called."""

    def __init__(self):
        sys.stdout.write("made\n")

    def open(self, runtime_context):
        sys.stdout.write("opened\n")
        super().open(runtime_context)

    def close(self):
        sys.stdout.write("closed\n")


def test_what_a_program_prints_is_no_answer(explained, tmp_path, monkeypatch):
    """It goes to standard error: JSON lines stay JSON lines."""
    (tmp_path / "talking.py").write_text(
        f"import {HERE}\nprint('imported')\nTalking = {HERE}.Talking\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    code, outcomes, told = explained("talking:Talking")

    assert (0, {"all", "last", "timers"}) == (code, set(outcomes))
    assert ["imported", "made", "opened", "closed"] == told.split()
