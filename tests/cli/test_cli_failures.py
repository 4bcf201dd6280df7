# SPDX-License-Identifier: Apache-2.0
"""Dead letters in a shell: `pyflinklike state failures` lists them and makes a call again."""

import base64
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from pyflinklike import (
    DeadLetters,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.cli import main
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness

HERE = __name__
DEAD = OutputTag("dead")
ON_ERROR = DeadLetters(DEAD, at_most=9, per="batch")


class Ratio(KeyedProcessFunction):
    """Divides by the amount, and fails in the timer of 9."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(9)
        yield 100 / value.amount + (self.last.value() or 0)
        self.last.update(value.amount)

    def on_timer(self, timestamp, ctx):
        raise LookupError(self.last.value())


class Mended(Ratio):
    """Knows zero."""

    def process_element(self, value, ctx):
        yield self.last.value() or 0


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Ruled(KeyedBroadcastProcessFunction):
    """Needs a rule."""

    def process_element(self, value, ctx):
        yield ctx.get_broadcast_state(RULES).get("each") // value.amount

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("each", value)
        return []


@pytest.fixture(scope="module")
def letters():
    """A letter of an element, and one of a timer."""
    with KeyedProcessHarness(Ratio(), lambda row: row.user, on_error=ON_ERROR) as harness:
        for amount in (4, 0):
            harness.process_element(Row(user="ann", amount=amount), 5)
        harness.process_watermark(10)
        return [row.as_dict() for row in harness.side_output(DEAD)]


@pytest.fixture(params=["parquet", "json"])
def directory(request, tmp_path, letters):
    """The letters as a query writes them: files of Parquet, or of JSON without what is null."""
    for number, letter in enumerate(letters):
        if request.param == "parquet":
            pq.write_table(pa.Table.from_pylist([letter]), tmp_path / f"part-{number}.parquet")
            continue
        row = {name: value for name, value in letter.items() if value is not None}
        row["failure_snapshot"] = base64.b64encode(row["failure_snapshot"]).decode()
        (tmp_path / f"part-{number}.json").write_text(json.dumps(row) + "\n")
    (tmp_path / "_SUCCESS").write_text("")
    return str(tmp_path)


def run(capsys, *arguments):
    """Run a command, and return its exit code and what it printed."""
    code = main(["state", "failures", *arguments])
    told = capsys.readouterr()
    return code, told.out + told.err


def test_the_letters_of_a_directory_are_listed(directory, capsys):
    """In their order, with their numbers; as JSON with all columns, a failure snapshot with its length."""
    code, told = run(capsys, directory)
    lines = told.splitlines()
    assert (0, 3) == (code, len(lines))
    assert ["index", "key", "operator", "call"] == lines[0].split()[:4]
    assert "ZeroDivisionError: division by zero" in lines[1]
    code, told = run(capsys, directory, "--json", "--operator", "Ratio")
    first, second = map(json.loads, told.splitlines())
    assert (0, 0, "ann", "process_element", 1, "on_timer", "4") == (
        code,
        first["index"],
        first["key"],
        first["call"],
        second["index"],
        second["call"],
        second["message"],
    )
    assert first["failure_snapshot"] > 100
    assert (0, "") == run(capsys, directory, "--json", "--batch", "3")


def test_a_call_is_made_again(directory, capsys):
    """The traceback is printed, and the exit code is 1; 0 where the function does not raise."""
    code, told = run(capsys, directory, "--replay", f"{HERE}:Ratio")
    assert (1, True, True) == (
        code,
        "yield 100 / value.amount" in told,
        told.endswith("ZeroDivisionError: division by zero\nthe same error as in the letter\n"),
    )
    code, told = run(capsys, directory, "--replay", f"{HERE}:Ratio", "--index", "1", "--json")
    found = json.loads(told)
    assert (1, True, True) == (code, found["is_same"], "LookupError: 4" in found["raised"])
    code, told = run(capsys, directory, "--replay", f"{HERE}:Mended", "--json")
    assert (0, {"output": "4"}) == (code, json.loads(told))


def test_a_function_with_a_broadcast_input_gets_its_states_of_the_failure_snapshot(
    tmp_path, capsys
):
    """They are declared as they were."""
    with BroadcastHarness(Ruled(), [RULES], lambda row: row.user, on_error=ON_ERROR) as harness:
        harness.process_broadcast_element(7)
        harness.process_element(Row(user="ann", amount=0))
        rows = [row.as_dict() for row in harness.side_output(DEAD)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "letters.parquet")
    code, told = run(capsys, str(tmp_path), "--replay", f"{HERE}:Ruled")
    assert (1, True) == (code, "the same error as in the letter" in told)


class Divisions(KeyedBatchFunction):
    """Divides whole columns."""

    def process_batch(self, batch, ctx):
        return {"user": batch["user"], "ratio": [100 // n for n in batch["amount"].to_pylist()]}


class MendedDivisions(Divisions):
    """Knows zero."""

    def process_batch(self, batch, ctx):
        return {"user": batch["user"], "ratio": [0] * len(batch)}


def test_a_record_of_a_function_of_batches_is_processed_again(tmp_path, capsys):
    """In a batch of one; the outputs are shown by row."""
    pytest.importorskip("numpy")
    with KeyedBatchHarness(Divisions(), "user", on_error=ON_ERROR) as harness:
        harness.process_batch({"user": ["ann", "bob"], "amount": [4, 0]})
        (letter,) = harness.side_output(DEAD)
    pq.write_table(pa.Table.from_batches([letter]), tmp_path / "letters.parquet")
    code, told = run(capsys, str(tmp_path), "--replay", f"{HERE}:Divisions")
    assert (1, True) == (code, "the same error as in the letter" in told)
    code, told = run(capsys, str(tmp_path), "--replay", f"{HERE}:MendedDivisions", "--json")
    assert (0, {"output": "{'user': 'bob', 'ratio': 0}"}) == (code, json.loads(told))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{nothing}"], "does not exist"),
        (["{empty}"], "*.parquet or *.json, got"),
        (["{other}"], "got one without ["),
        (["{letters}", "--replay", f"{HERE}:Ratio", "--index", "2"], "got 2 of 2 letters"),
        (["{letters}", "--replay", f"{HERE}:RULES"], "--replay takes a class"),
    ],
)
def test_what_cannot_be_done_is_told(arguments, said, tmp_path, letters, capsys):
    """In one line, with exit code 2."""
    places = {name: tmp_path / name for name in ("nothing", "empty", "other", "letters")}
    for name in ("empty", "other", "letters"):
        places[name].mkdir()
    pq.write_table(pa.Table.from_pylist(letters), places["letters"] / "a.parquet")
    pq.write_table(pa.table({"n": [1]}), places["other"] / "a.parquet")
    code, told = run(capsys, *[each.format(**places) for each in arguments])
    assert (2, 1, True) == (code, len(told.splitlines()), said in told), told
