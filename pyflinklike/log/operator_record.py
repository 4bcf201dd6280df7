# SPDX-License-Identifier: Apache-2.0
"""The record of an operator: what its log does not say of the program that writes it.

It is kept beside the key groups, in a place that depends on no setting, and compared in
every micro-batch that has records: `call_roll`.  It is JSON, so that whoever has the
checkpoint and not the program can read what is in there.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import attrs

from pyflinklike.errors import CorruptStateError
from pyflinklike.log.declaration import Declaration, settings_said
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.roll import Roll

__all__ = ["RECORD_AT", "ROLL_AT", "OperatorRecord", "RecordStorage", "call_roll"]

RECORD_AT = -2
"""Where the record is among the sequence numbers of its place."""
ROLL_AT = -3
"""Where the roll is."""

_FORMAT = 1


@attrs.frozen
class OperatorRecord:
    """What a checkpoint was written by.

    Args:
        identity: What may not change.
        function: Module and name of the function's class.
        library: Version of pyflinklike.
        time_zone: Of the session.
        event_time: Name of the column, or None.
        time_mode: The host's word for it.
        states: What each state and store was declared as, by name.
    """

    identity: OperatorIdentity
    function: str
    library: str
    time_zone: str
    event_time: str | None
    time_mode: str
    states: Mapping[str, Mapping[str, Any]]

    def to_bytes(self) -> bytes:
        """The record as JSON, with its checksum among its members."""
        fields = {
            "format": _FORMAT,
            "library": self.library,
            "uid": self.identity.name,
            "function": self.function,
            "max_parallelism": self.identity.max_parallelism,
            "key": self.identity.key,
            "key_columns": self.identity.key_columns,
            "time_zone": self.time_zone,
            "event_time": self.event_time,
            "time_mode": self.time_mode,
            "states": self.states,
        }
        return _json({**fields, "checksum": zlib.crc32(_json(fields))})

    @classmethod
    def from_bytes(cls, blob: bytes, where: str) -> OperatorRecord:
        """The record that `to_bytes` wrote.

        Args:
            blob: What was stored.
            where: Whose record, for messages.

        Raises:
            CorruptStateError: It is none.
        """
        try:
            fields = json.loads(blob)
            columns = tuple((name, kind) for name, kind in fields["key_columns"])
            record = cls(
                OperatorIdentity(fields["uid"], fields["max_parallelism"], columns, fields["key"]),
                fields["function"],
                fields["library"],
                fields["time_zone"],
                fields["event_time"],
                fields["time_mode"],
                fields["states"],
            )
            # The one way to write it: what reads alike and was written otherwise is damaged.
            whole = fields["format"] == _FORMAT and record.to_bytes() == blob
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptStateError(_damaged(where, blob)) from error
        if not whole:
            raise CorruptStateError(_damaged(where, blob))
        return record

    @property
    def digest(self) -> bytes:
        """Eight bytes that tell it from other records."""
        return hashlib.blake2b(self.to_bytes(), digest_size=8).digest()

    def after(self, former: OperatorRecord) -> OperatorRecord:
        """The record to write over a former one: states left out of the program are still stored.

        Raises:
            IncompatibleStateError: The former one is another operator's, or has a state that the
                program declares otherwise and that does not grow into that.
        """
        self.identity.check(former.identity)
        for name in sorted(self.states.keys() & former.states.keys()):
            _declared(name, former.states[name]).check(_declared(name, self.states[name]))
        return attrs.evolve(self, states={**former.states, **self.states})


class RecordStorage(Protocol):
    """Where a host keeps the record and the roll of an operator."""

    def read_segment(self, sequence: int) -> bytes | None:
        """What is stored under a number, or None."""

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Store under a number."""


def call_roll(
    storage: RecordStorage,
    record: OperatorRecord,
    groups: Iterable[int],
    time: int,
    saved: Mapping[str, Mapping[str, Any]] | None = None,
    agrees: Callable[[OperatorRecord], None] | None = None,
) -> None:
    """See that a checkpoint is this program's, and note which key groups have records.

    Args:
        storage: Of the operator's record.
        record: Of the program.
        groups: Key groups that have records in this micro-batch.
        time: Of the micro-batch, in ms.
        saved: What the states of the savepoint were declared as that the checkpoint begins with:
            those left out of the program are stored, too.
        agrees: Raises where the host cannot go on from what a record says.

    Raises:
        IncompatibleStateError: The checkpoint is another operator's.
        CorruptStateError: The record or the roll is damaged.
    """
    where = f"operator {record.identity.name!r}"
    blob = storage.read_segment(ROLL_AT)
    former = Roll(b"", {}) if blob is None else Roll.from_bytes(blob, where)
    if former.record != record.digest:
        if blob is None:
            written = attrs.evolve(record, states={**(saved or {}), **record.states})
            _write_record(storage, written, where, is_new=True)
        else:
            _write_record(storage, record, where, is_new=False, agrees=agrees)
    roll = former.called(record.digest, groups, time)
    if roll != former:
        storage.write_segment(ROLL_AT, roll.to_bytes())


def _write_record(
    storage: RecordStorage,
    record: OperatorRecord,
    where: str,
    *,
    is_new: bool,
    agrees: Callable[[OperatorRecord], None] | None = None,
) -> None:
    stored = storage.read_segment(RECORD_AT)
    if (stored is None) is not is_new:
        msg = f"{where}: its record and the roll of its key groups are written together, got one"
        raise CorruptStateError(f"{msg} without the other; go back to a checkpoint")
    if stored is not None:
        former = OperatorRecord.from_bytes(stored, where)
        record = record.after(former)
        if agrees is not None:
            agrees(former)
    blob = record.to_bytes()
    if blob != stored:
        storage.write_segment(RECORD_AT, blob)


def _declared(name: str, said: Mapping[str, Any]) -> Declaration:
    """What may not change of a state, or in one direction only.

    What else a log compares (a store's scope, the width of its windows, a state's settings, of which
    some may follow others) is left to the key groups.
    """
    kind = f"{said['store']} store" if "store" in said else said["kind"]
    types = {each: said.get(each, "") for each in ("key", "user_key", "value", "namespace")}
    settings = settings_said({"ttl": said.get("ttl")})
    return Declaration(name=name, kind=kind, shape="", settings=settings, **types)


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _damaged(where: str, blob: bytes) -> str:
    return (
        f"{where}: the record must be the JSON object that was written, got {blob[:200]!r}; "
        "go back to a checkpoint"
    )
