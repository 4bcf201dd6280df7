# SPDX-License-Identifier: Apache-2.0
"""The command `explain` shows the outcome of a restart for each state, or the size of each log.

It finds the outcome before the restart, with the code that the restart itself runs.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, cast

import attrs
import click

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.cli.answers import Answers, choose_state, is_savepoint
from pyflinklike.cli.cells import iso, length
from pyflinklike.cli.command import Look, command
from pyflinklike.errors import DeclarationValueError, IncompatibleStateError, UnknownStateError
from pyflinklike.state.fold_functions import Function
from pyflinklike.state.ttl_table import horizon_at
from pyflinklike.state_processor._logs.state_infos import declaration_of
from pyflinklike.types.catalog import type_of

if TYPE_CHECKING:
    from pyflinklike.cli.checkpoint_answers import CheckpointAnswers


@command("explain")
@click.option(
    "--function",
    "address",
    metavar="MODULE:CLASS",
    help="The function of the program, imported and opened here. Without it, the logs are shown.",
)
def _explain(look: Look, address: str | None) -> int:
    """Say what a restart of a program would do with each state, or show each key group's log.

    The command sees what the function declares. The uid, the key columns and max_parallelism are
    compared when the query starts.
    """
    function = None if address is None else import_function(address, "--function")
    if function is None and is_savepoint(look.path):
        msg = (
            f"explain without --function shows the log of a checkpoint, got savepoint {look.path!r}"
        )
        raise DeclarationValueError(f"{msg}; give --function module:Class")
    with look.answers() as answers:
        look.printer.note(answers.facts())
        if function is None:
            return _logs(look, cast("CheckpointAnswers", answers))
        found = list(_outcomes(answers, function, is_checkpoint=not is_savepoint(look.path)))
        rows = [attrs.asdict(each) for each in found]
        columns = [each.name for each in attrs.fields(Outcome)]
        look.printer.rows(rows, columns, batch_id=answers.batch_id)
        return 1 if any(each.outcome == "refused" for each in found) else 0


def import_function(address: str, option: str) -> Function:
    """Import the function of a program.

    Args:
        address: `module:name` of a function object, its class, or a callable that makes one.
        option: The option that has the address, for messages.

    Raises:
        DeclarationValueError: The address leads to no function.
    """
    module, _, name = address.partition(":")
    # `pyflinklike` is a console script, so Python did not put the working directory there.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    remedy = "write module:Class, of a module that Python finds from here"
    try:
        with redirect_stdout(sys.stderr):  # the program's prints must not be among our rows
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            function = found if isinstance(found, Function) else found()
    except Exception as error:
        msg = f"{option} takes a class that is made without arguments, got {address!r}"
        raise DeclarationValueError(f"{msg} ({type(error).__name__}: {error}); {remedy}") from error
    if not isinstance(function, Function):
        msg = f"{option} takes a function of pyflinklike, got {address!r}, which gives {function!r}"
        raise DeclarationValueError(f"{msg}; {remedy}")
    return function


@attrs.frozen
class Outcome:
    """The outcome for one stored or declared state.

    Args:
        operator: The uid of the operator.
        state: The name of the state, or "timers".
        outcome: "same", "migrates", "new", "left over" or "refused".
        note: The meaning or the cause of the outcome.
    """

    operator: str
    state: str
    outcome: str
    note: str


def _outcomes(answers: Answers, function: Function, *, is_checkpoint: bool) -> Iterator[Outcome]:
    record = _single_record(answers)
    declared = _declarations(function, record)

    def expiring(name: str, stored: Mapping[str, Any], now: Mapping[str, Any]) -> str:
        return _word_expiry(answers, name, stored, now)

    yield from _state_outcomes(record, declared, expiring)
    counts = {
        row["domain"]: row["timers"]
        for some in answers.timers(None, None, 0)
        for row in some.counts
    }
    timers = _timers_outcome(record, function, counts, is_fixed=is_checkpoint)
    if timers is not None:
        yield timers


def _single_record(answers: Answers) -> OperatorRecord:
    records = answers.records()
    if len(records) != 1:
        uids = [each.identity.name for each in records]
        msg = f"{answers.where}: explain --function takes one operator, got {uids}"
        raise UnknownStateError(f"{msg}; choose with --operator")
    return records[0]


def _declarations(function: Function, record: OperatorRecord) -> Mapping[str, Mapping[str, Any]]:
    """Open a function, and return the states that it declares, in the form of a record.

    Args:
        function: A function that is opened and closed here.
        record: The record of the operator whose state the function would continue.

    Raises:
        UserFunctionError: The function raised.
        DeclarationTypeError, DeclarationValueError: A declaration is wrong.
    """
    identity = record.identity
    task = TaskInfo(
        identity.name, max_parallelism=identity.max_parallelism, key_columns=identity.key_columns
    )
    operator = make_keyed_operator(
        OperatorDeclaration(function, HashMapStateBackend(), type_of(identity.key), task, "explain")
    )
    with redirect_stdout(sys.stderr):
        operator.open()
        try:
            return operator.describe_states()
        finally:
            operator.close()


def _state_outcomes(
    record: OperatorRecord,
    declared: Mapping[str, Mapping[str, Any]],
    expiring: Callable[[str, Mapping[str, Any], Mapping[str, Any]], str],
) -> Iterator[Outcome]:
    """Yield the outcome of a restart for each state.

    Args:
        record: The record that the operator stored with its state.
        declared: The declarations of the program, by the names of states.
        expiring: Returns the effect of another TTL in words; its arguments are a state's name, the
            stored TTL and the declared one.
    """
    uid = record.identity.name
    program = attrs.evolve(record, states=declared)
    for name in sorted({*record.states, *record.dropped, *declared}):
        if name in record.dropped:
            note = f"is being dropped; keep drop_states=[{name!r}] until all key groups had records"
            yield Outcome(uid, name, "new" if name in declared else "left over", note)
            continue
        if name not in record.states:
            yield Outcome(uid, name, "new", "begins empty")
            continue
        if name not in declared:
            yield Outcome(uid, name, "left over", "stays in the log as it is, and is not read")
            continue
        said, says = record.states[name], declared[name]
        try:
            stored, now = declaration_of(record, name), declaration_of(program, name)
            stored.check(now)
        except IncompatibleStateError as error:
            yield Outcome(uid, name, "refused", str(error))
            continue
        migrates = stored.value != now.value
        notes = [f"{stored.value} is read as {now.value}"] if migrates else []
        notes += _of_ttl(name, said.get("ttl"), says.get("ttl"), expiring)
        notes += _of_options(said, says)
        yield Outcome(uid, name, "migrates" if migrates else "same", "; ".join(notes))


def _of_ttl(
    name: str,
    stored: Mapping[str, Any] | None,
    now: Mapping[str, Any] | None,
    expiring: Callable[[str, Mapping[str, Any], Mapping[str, Any]], str],
) -> Iterator[str]:
    if stored == now:
        return
    if stored is None:
        yield "TTL switched on: entries are stamped with the time of the restart"
    elif now is None:
        yield "TTL switched off: all that is stored stays, expired or not"
    elif stored["ms"] != now["ms"]:
        yield f"TTL of {length(now['ms'])}, was {length(stored['ms'])}: {expiring(name, stored, now)}"
    else:
        yield "TTL of the same length, with other settings"


def _word_expiry(
    answers: Answers, name: str, stored: Mapping[str, Any], now: Mapping[str, Any]
) -> str:
    """Return the effect of another length of a TTL in words, by the clock of the batch."""
    clock = answers.clock()
    if clock is None:
        return "stamps are judged by the new length"
    before, after = (
        max(horizon_at(clock.now(each), each["ms"]), MIN_WATERMARK) for each in (stored, now)
    )
    info = choose_state(answers, name)
    if after > before:
        return f"{answers.count_stamped(info, before, after)} entries expire at once"
    back = answers.count_stamped(info, after, before)
    return f"{back} entries that had expired come back, unless they are removed before"


# These are compared by the rules of a restart; any other field of a record is an option.
_TYPES = {"kind", "store", "key", "user_key", "value", "namespace", "settings", "ttl"}


def _of_options(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for option in sorted((stored.keys() | now.keys()) - _TYPES):
        before, after = stored.get(option), now.get(option)
        if before != after:
            yield f"{option} is {after}, was {before}"


def _timers_outcome(
    record: OperatorRecord, function: Function, counts: Mapping[str, int], *, is_fixed: bool
) -> Outcome | None:
    """Return the outcome of a restart for registered timers, or None without timers.

    Args:
        record: The record that the operator stored with its state.
        function: The function of the program.
        counts: The number of registered timers, by domain.
        is_fixed: Whether the time mode cannot change, as in a checkpoint.
    """
    from pyflinklike.functions.code_search import uses_processing_timers

    uid, many = record.identity.name, counts.get("processing_time", 0)
    uses, had = uses_processing_timers(function), record.time_mode == "ProcessingTime"
    if uses and is_fixed and not had:
        note = "the function now uses processing-time timers, and a query keeps its time mode"
        return Outcome(uid, "timers", "refused", f"{note}; begin a new checkpoint with a savepoint")
    if not uses and (many or (is_fixed and had)):
        note = f"{many} processing-time timers could not fire: the function's code registers none"
        remedy = "pass processing_time_timers=True to process()"
        return Outcome(uid, "timers", "refused", f"{note}; {remedy}")
    total = sum(counts.values())
    return Outcome(uid, "timers", "same", f"{total} registered") if total else None


def _logs(look: Look, answers: CheckpointAnswers) -> int:
    rows = [
        {
            "operator": operator.record.identity.name,
            "key_group": index,
            "segments": head.next_sequence - head.first_sequence,
            "entries": head.log_entries,
            "bytes": head.log_bytes,
            "snapshot_entries": head.snapshot_entries,
            "snapshot_bytes": head.snapshot_bytes,
            "compacted_at": iso(head.compacted_at) if head.nonce else None,
            "served_at": None if head.served_at is None else iso(head.served_at),
            "wake_at": None if head.wake_at is None else iso(head.wake_at),
        }
        for operator in answers.operators
        for index, head in sorted(operator.heads.items())
    ]
    columns = list(rows[0]) if rows else ["operator", "key_group"]
    look.printer.rows(rows, columns, batch_id=answers.batch_id)
    return 0
