# SPDX-License-Identifier: Apache-2.0
"""The command `explain`: the outcome of a restart for each state, or the size of each log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs
import click

from pyflinklike.cli.asking import Source
from pyflinklike.cli.looking import Look, command
from pyflinklike.cli.programs import (
    Outcome,
    declared_by,
    function_of,
    outcomes,
    timers_outcome,
)
from pyflinklike.cli.shapes import iso
from pyflinklike.cli.sources import chosen, is_savepoint
from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.errors import DeclarationValueError, UnknownStateError
from pyflinklike.functions import Function
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.state.ttl_rules import horizon_at

if TYPE_CHECKING:
    from pyflinklike.cli.checkpoints import CheckpointSource


@command("explain")
@click.option(
    "--function",
    "address",
    metavar="MODULE:CLASS",
    help="The function of the program; imported and opened here. Without it, the logs are told of.",
)
def _explain(look: Look, address: str | None) -> int:
    """Tell what a restart of a program would do with each state; or how each key group's log stands.

    It knows of the program what its function declares. The uid, the key columns and
    max_parallelism are compared when the query starts.
    """
    function = None if address is None else function_of(address)
    if function is None and is_savepoint(look.path):
        msg = f"explain tells of a program, or of the log of a checkpoint, got savepoint {look.path!r}"
        raise DeclarationValueError(f"{msg}; give --function module:Class")
    with look.source() as source:
        look.printer.note(source.facts())
        if function is None:
            return _logs(look, cast("CheckpointSource", source))
        found = list(_outcomes(source, function, is_checkpoint=not is_savepoint(look.path)))
        rows = [attrs.asdict(each) for each in found]
        columns = [each.name for each in attrs.fields(Outcome)]
        look.printer.rows(rows, columns, batch_id=source.batch_id)
        return 1 if any(each.outcome == "refused" for each in found) else 0


def _outcomes(source: Source, function: Function, *, is_checkpoint: bool) -> Iterator[Outcome]:
    record = _only(source)
    declared = declared_by(function, record)

    def expiring(name: str, stored: Mapping[str, Any], now: Mapping[str, Any]) -> str:
        return _expiring(source, name, stored, now)

    yield from outcomes(record, declared, expiring)
    counts = {
        row["domain"]: row["timers"] for some in source.timers(None, None, 0) for row in some.counts
    }
    timers = timers_outcome(record, function, counts, is_fixed=is_checkpoint)
    if timers is not None:
        yield timers


def _only(source: Source) -> OperatorRecord:
    records = source.records()
    if len(records) != 1:
        uids = [each.identity.name for each in records]
        msg = f"{source.where}: explain --function is of one operator, got {uids}"
        raise UnknownStateError(f"{msg}; choose with --operator")
    return records[0]


def _expiring(source: Source, name: str, stored: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Word the effect of another length of a TTL, by the clock of the batch."""
    clock = source.clock()
    if clock is None:
        return "stamps are judged by the new length"
    before, after = (
        max(horizon_at(clock.now(each), each["ms"]), MIN_WATERMARK) for each in (stored, now)
    )
    info = chosen(source, name)
    if after > before:
        return f"{source.count_stamped(info, before, after)} entries expire at once"
    back = source.count_stamped(info, after, before)
    return f"{back} entries that had expired come back, unless they are removed before"


def _logs(look: Look, source: CheckpointSource) -> int:
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
        for operator in source.operators
        for index, head in sorted(operator.heads.items())
    ]
    columns = list(rows[0]) if rows else ["operator", "key_group"]
    look.printer.rows(rows, columns, batch_id=source.batch_id)
    return 0
