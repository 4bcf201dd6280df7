# SPDX-License-Identifier: Apache-2.0
"""The record of an operator: what its log does not say of the program that writes it.

The record lies beside the key groups, in a place that depends on no setting, and is compared in
every micro-batch that has records.  It is JSON, so that a checkpoint can be understood without its
program.
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
"""Number of the record in the map that stores it."""
ROLL_AT = -3
"""Number of the roll in the same map."""

_FORMAT = 1


@attrs.frozen
class OperatorRecord:
    """The description of the program that wrote a checkpoint.

    Args:
        identity: What may not change.
        function: Module and name of the function's class.
        library: Version of pyflinklike.
        time_zone: Time zone of the session.
        event_time: Name of the column, or None.
        time_mode: The host's word for it.
        states: Declarations of the states and stores as plain data, by name.
    """

    identity: OperatorIdentity
    function: str
    library: str
    time_zone: str
    event_time: str | None
    time_mode: str
    states: Mapping[str, Mapping[str, Any]]

    def to_bytes(self) -> bytes:
        """Return the record as JSON, with its checksum among its members."""
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
        """Read a record that `to_bytes` wrote.

        Args:
            blob: What was stored, or anything else.
            where: Name of the operator, for messages.

        Raises:
            CorruptStateError: The blob is no record, or is damaged.
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
            # A record is written in one way: another spelling of the same fields is damage, too.
            whole = fields["format"] == _FORMAT and record.to_bytes() == blob
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptStateError(_damaged(where, blob)) from error
        if not whole:
            raise CorruptStateError(_damaged(where, blob))
        return record

    @property
    def digest(self) -> bytes:
        """Eight bytes that differ between records."""
        return hashlib.blake2b(self.to_bytes(), digest_size=8).digest()

    def after(self, former: OperatorRecord) -> OperatorRecord:
        """Return the record to write over a former one; it keeps states that the program left out.

        Raises:
            IncompatibleStateError: The former one is another operator's, or has a state that the
                program declares otherwise and that does not grow into that.
        """
        self.identity.check(former.identity)
        for name in sorted(self.states.keys() & former.states.keys()):
            _declared(name, former.states[name]).check(_declared(name, self.states[name]))
        return attrs.evolve(self, states={**former.states, **self.states})


class RecordStorage(Protocol):
    """A host's storage for the record and the roll of an operator."""

    def read_segment(self, sequence: int) -> bytes | None:
        """Return the blob under a number, or None."""

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Store a blob under a number."""


def call_roll(
    storage: RecordStorage,
    record: OperatorRecord,
    groups: Iterable[int],
    time: int,
    saved: Mapping[str, Mapping[str, Any]] | None = None,
    agrees: Callable[[OperatorRecord], None] | None = None,
) -> None:
    """Check that a checkpoint is this program's, and note which key groups have records.

    Args:
        storage: Where the host keeps the operator's record.
        record: Record of the program.
        groups: Key groups that have records in this micro-batch.
        time: Time of the micro-batch, in ms.
        saved: Declarations of the states in the savepoint that the checkpoint begins with: states
            that the program leaves out are stored, too.
        agrees: Raises where the host cannot go on from what a record says.

    Raises:
        IncompatibleStateError: The checkpoint is another operator's.
        CorruptStateError: The record or the roll is damaged.
    """
    where = f"operator {record.identity.name!r}"
    blob = storage.read_segment(ROLL_AT)
    former = Roll(b"", {}) if blob is None else Roll.from_bytes(blob, where)
    # The roll has the record's digest, so that one read tells that nothing has changed.
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
    """Build a declaration of the parts of a state that never change, or in one direction only.

    A log compares more: a store's scope, the width of its windows, and settings, some of which may
    follow others.  That is left to the key groups.
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
