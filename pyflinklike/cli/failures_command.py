# SPDX-License-Identifier: Apache-2.0
"""The command `failures` lists dead letters, and repeats a call that failed.

It reads the files that a query wrote for the side output of `DeadLetters`, Parquet or JSON lines,
without Spark.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from pyflinklike._messages import short_repr, shown_traceback, whole_message
from pyflinklike._runtime.failure_snapshot import BATCHES, FailedCall, read_failure_snapshot
from pyflinklike.cli.cells import iso
from pyflinklike.cli.command import Look, command, limit_option
from pyflinklike.cli.explain_command import import_function
from pyflinklike.errors import CorruptStateError, DeclarationValueError
from pyflinklike.functions.dead_letters import LETTER_FIELDS
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness, KeyedTwoInputHarness
from pyflinklike.testing.operator_harness import OperatorHarness
from pyflinklike.types.catalog import type_of
from pyflinklike.types.pickled_type import pickle_allowed

_FIELDS = [name for name, _ in LETTER_FIELDS]
_SHORT = ("index", "operator", "call", "subject", "timestamp", "batch", "error", "raised_at")


@command("failures")
@click.option(
    "--replay",
    "address",
    metavar="MODULE:CLASS",
    help="Repeat the call of one letter with this function, which is imported and opened here.",
)
@click.option(
    "--index", type=click.IntRange(0), default=0, show_default=True, help="Which letter to replay."
)
@click.option("--allow-pickle", is_flag=True, help="Unpickle; the writer may run code here.")
@limit_option
def _failures(look: Look, address: str | None, index: int, allow_pickle: bool, limit: int) -> int:
    """List the dead letters in a directory, or repeat the call of one and print what it raises.

    PATH is the directory to which a query writes the side output of DeadLetters, as Parquet files
    or JSON lines. The letters are numbered in the order of operator, batch and processing time.
    """
    letters = _letters(look)
    if address is None:
        return _list(look, letters, limit)
    if index >= len(letters):
        msg = f"--index takes the number of a letter, got {index} of {len(letters)} letters"
        raise DeclarationValueError(f"{msg}; `failures {look.path}` lists them")
    return _replay(look, letters[index], address, allow_pickle=allow_pickle)


def _list(look: Look, letters: list[dict[str, Any]], limit: int) -> int:
    rows = []
    for index, letter in enumerate(letters[: limit or None]):
        keys = {name: value for name, value in letter.items() if name not in _FIELDS}
        row = {"index": index, **keys, **{name: letter[name] for name in _FIELDS}}
        row["failure_snapshot"] = (
            None if letter["failure_snapshot"] is None else len(letter["failure_snapshot"])
        )
        if not look.is_json:
            row["error"] = f"{letter['error_class']}: {letter['message']}"
            time = letter["timestamp"]
            row["timestamp"] = None if time is None else iso(time)
        rows.append(row)
    names = list(rows[0]) if rows else ["index", *_FIELDS]
    columns = names
    if not look.is_json:
        of_key = [each for each in names if each not in {*_FIELDS, "index", "error"}]
        columns = ["index", *of_key, *_SHORT[1:], "failure_snapshot"]
    look.printer.rows(rows, columns)
    if limit and len(letters) > limit:
        look.printer.warn_of_more(limit)
    return 0


def _replay(look: Look, letter: dict[str, Any], address: str, *, allow_pickle: bool) -> int:
    failed = read_failure_snapshot(
        letter["failure_snapshot"], allow_pickle=pickle_allowed(allow_pickle)
    )
    function = import_function(address, "--replay")
    look.printer.note(f"{letter['operator']}: {letter['call']} of {letter['subject']}")
    with _harness(
        failed, letter["failure_snapshot"], function, allow_pickle=allow_pickle
    ) as harness:
        try:
            outputs: Any = harness.replay()
        except Exception as error:
            shown = shown_traceback(error).rstrip()
            raised = type(error).__name__, whole_message(error)
            again = raised == (letter["error_class"], letter["message"])
            if look.is_json:
                look.printer.rows([{"raised": shown, "is_same": again}], ["raised", "is_same"])
            else:
                click.echo(shown)
                look.printer.note("the same error as in the letter" if again else "another error")
            return 1
    if failed.facts.inputs == BATCHES:
        outputs = outputs.to_pylist()
    look.printer.note(f"nothing was raised; {len(outputs)} outputs")
    look.printer.rows([{"output": short_repr(each)} for each in outputs], ["output"])
    return 0


def _harness(
    failed: FailedCall, failure_snapshot: bytes, function: Any, *, allow_pickle: bool
) -> OperatorHarness:
    """Make the harness that fits the inputs of the function that failed."""
    made: Any = KeyedProcessHarness
    arguments: list[Any] = [failure_snapshot, function]
    if failed.facts.inputs == "two inputs":
        made = KeyedTwoInputHarness
    elif failed.facts.inputs == "a broadcast input":
        made = BroadcastHarness
        replicated = (each for each in failed.state.declarations.values() if each.is_replicated)
        arguments.append(
            [MapStateDescriptor(d.name, type_of(d.user_key), type_of(d.value)) for d in replicated]
        )
    elif failed.facts.inputs == BATCHES:
        from pyflinklike.columns import KeyedBatchHarness  # needs NumPy, which an extra brings

        made = KeyedBatchHarness
    harness: OperatorHarness = made.of_failure(*arguments, allow_pickle=allow_pickle)
    return harness


# The files


def _letters(look: Look) -> list[dict[str, Any]]:
    """Read the letters that the common options choose, in their order.

    Raises:
        DeclarationValueError: There are no files of letters.
    """
    if not os.path.exists(look.path):
        msg = f"PATH must be a directory with the files of dead letters, got {look.path!r}"
        raise DeclarationValueError(f"{msg}, which does not exist; give that of the side output")
    letters = [
        letter
        for letter in _read(look.path)
        if (look.operator is None or letter["operator"] == look.operator)
        and (look.batch is None or letter["batch"] == look.batch)
    ]
    letters.sort(key=lambda each: (each["operator"], each["batch"] or 0, each["processing_time"]))
    return letters


def _read(path: str) -> Iterator[dict[str, Any]]:
    root = Path(path)
    files = [root] if root.is_file() else sorted(each for each in root.rglob("*") if _is_data(each))
    if not files:
        msg = f"PATH must have files of dead letters, *.parquet or *.json, got {path!r} without any"
        raise DeclarationValueError(f"{msg}; write the side output in one of these formats")
    for file in files:
        rows = _parquet(file) if file.suffix == ".parquet" else _json(file)
        for row in rows:
            missing = sorted({*_FIELDS} - {"failure_snapshot"} - row.keys())
            if missing:
                msg = f"{file}: a dead letter has the columns {_FIELDS}, got one without {missing}"
                raise DeclarationValueError(f"{msg}; write all columns of the side output")
            yield {"failure_snapshot": None, **row}


def _is_data(path: Path) -> bool:
    # Spark's own files, such as "_SUCCESS" and ".part-0.parquet.crc", begin with these.
    return path.suffix in (".parquet", ".json") and path.name[0] not in "._"


def _parquet(file: Path) -> list[dict[str, Any]]:
    try:
        # One file, not the dataset: names of folders such as "batch=3" would become columns.
        rows: list[dict[str, Any]] = pq.ParquetFile(file).read().to_pylist()
    except (pa.ArrowException, OSError) as error:
        msg = f"{file}: must be a Parquet file, got {type(error).__name__}: {error}; write it anew"
        raise CorruptStateError(msg) from error
    return rows


def _json(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            if row.get("failure_snapshot") is not None:
                row["failure_snapshot"] = base64.b64decode(
                    row["failure_snapshot"], validate=True
                )  # as Spark writes it
        except (ValueError, AttributeError, binascii.Error) as error:
            msg = f"{file}, line {number}: must be a dead letter as JSON, got {short_repr(line)}"
            raise CorruptStateError(f"{msg} ({error}); write it anew") from error
        # Spark leaves out what is null.
        yield {**dict.fromkeys(_FIELDS), **row}
