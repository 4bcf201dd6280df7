# SPDX-License-Identifier: Apache-2.0
"""Whose state a checkpoint holds: the record of its operator, and the registry of its key groups.

**The record** describes the program that writes a log.  It is stored beside the key groups, in a
place that depends on no setting, and each micro-batch with records compares it with the program.
It is JSON, so a checkpoint can be understood without its program.

The identity in the record may not change while a query goes on from the checkpoint.  With another
operator, another number of key groups, or keys of other columns, the program would look for its
keys in the wrong place, find nothing, and start from empty state without an error.

**The registry** lists the key groups that have state, each with the time of the last micro-batch
that had records for it.  The host's storage cannot notice that a key group is missing, because a
missing group looks like one that never had records.  The registry does: it is stored apart from the
key groups, and a reader of a checkpoint compares the two (`checkpoint_logs.check_groups`).

The registry also shows how far the dropping of a state has come.  A key group loses a dropped state
in its next micro-batch with records.  So the state is gone for good if each group in the registry
had records since `OperatorRecord.dropped`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from pyflinklike._changelog.log_storage import BlobStorage
from pyflinklike._changelog.segments import (
    FORMAT_VERSION,
    Declaration,
    check_version,
    settings_said,
)
from pyflinklike.errors import CorruptStateError, IncompatibleStateError, UnknownStateError

RECORD_AT = -2
"""Number of the record in the map that stores it."""
REGISTRY_AT = -3
"""Number of the registry in the same map."""

_SHOWN = 8
"""Number of key groups that a message names."""


@attrs.frozen
class OperatorRecord:
    """The description of the program that wrote a checkpoint.

    Args:
        identity: The part of the record that must not change.
        function: Module and name of the function's class.
        library: Version of pyflinklike that wrote the record.
        time_zone: Time zone of the session.
        event_time: Name of the column with event time, or None.
        time_mode: The host's name for the kind of time, such as Spark's time mode.
        states: Declarations of the states and stores as plain data, by name.
        dropped: The states that are being dropped, each with a time in ms: key groups with records
            at that time or later have lost the state.  A program does not know these times; `after`
            fills them in.
    """

    identity: OperatorIdentity
    function: str
    library: str
    time_zone: str
    event_time: str | None
    time_mode: str
    states: Mapping[str, Mapping[str, Any]]
    dropped: Mapping[str, int] = attrs.field(factory=dict)

    def to_bytes(self) -> bytes:
        """Return the record as JSON, with its checksum among its members."""
        fields = {
            "format": FORMAT_VERSION,
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
        if self.dropped:
            fields["dropped"] = self.dropped
        return _json({**fields, "checksum": zlib.crc32(_json(fields))})

    @classmethod
    def from_bytes(cls, blob: bytes, where: str) -> OperatorRecord:
        """Read a record that `to_bytes` wrote.

        Args:
            blob: The bytes that were stored; untrusted.
            where: Name of the operator, for messages.

        Raises:
            CorruptStateError: The blob is no record, is damaged, or is of another format.
        """
        try:
            fields = json.loads(blob)
            check_version(fields["format"], where)
            columns = tuple((name, kind) for name, kind in fields["key_columns"])
            record = cls(
                OperatorIdentity(fields["uid"], fields["max_parallelism"], columns, fields["key"]),
                fields["function"],
                fields["library"],
                fields["time_zone"],
                fields["event_time"],
                fields["time_mode"],
                fields["states"],
                dict(fields.get("dropped", {})),
            )
            # The same record always gives the same bytes, so any other spelling is damage.  This
            # check also covers the checksum.
            whole = record.to_bytes() == blob
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptStateError(_describe_damage(where, blob)) from error
        if not whole:
            raise CorruptStateError(_describe_damage(where, blob))
        return record

    @property
    def digest(self) -> bytes:
        """Eight bytes that differ between records."""
        return hashlib.blake2b(self.to_bytes(), digest_size=8).digest()

    def after(
        self, former: OperatorRecord, registry: KeyGroupRegistry, time: int
    ) -> OperatorRecord:
        """Return the record to write over a former one; it keeps states that the program left out.

        Args:
            former: The record that is stored.
            registry: The registry of the micro-batch before.
            time: Time of the micro-batch, in ms.

        Raises:
            IncompatibleStateError: The former record is another operator's, or has a state whose
                type cannot evolve into the declared one, or one that is only partly dropped.
            UnknownStateError: The program drops a state that the checkpoint does not have.
        """
        self.identity.check(former.identity)
        for name in sorted(self.states.keys() & former.states.keys()):
            _declare(name, former.states[name]).check(_declare(name, self.states[name]))
        for name in sorted(former.dropped.keys() - self.dropped.keys()):
            _check_is_gone(self.identity.name, name, former.dropped[name], registry)
        known = former.states.keys() | former.dropped.keys()
        for name in self.dropped:
            _check_can_be_dropped(self.identity.name, name, known)
        # Key groups with records in this very micro-batch lose the state in it, so its time counts
        # too.  If the clock went back, take a time after all that the registry has.
        since = max(time, max(registry.served_at.values(), default=time - 1) + 1)
        states = {**former.states, **self.states}
        return attrs.evolve(
            self,
            states={name: said for name, said in states.items() if name not in self.dropped},
            dropped={name: former.dropped.get(name, since) for name in self.dropped},
        )


def is_of_state(table: str, names: Collection[str]) -> bool:
    """Return whether a table belongs to one of these states or stores.

    A store has several tables; their names begin with the store's name and a slash.
    """
    return table in names or table.partition("/")[0] in names


def _check_can_be_dropped(operator: str, name: str, known: Collection[str]) -> None:
    """Refuse to drop a state that the checkpoint does not have, or that cannot be dropped alone.

    Raises:
        UnknownStateError: The checkpoint has no state of that name.
        IncompatibleStateError: Another state's name looks like a table of this state.
    """
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        remedy = f"did you mean {near[0]!r}?" if near else "leave it out"
        msg = f"operator {operator!r}: drop_states takes names of states that its checkpoint has"
        raise UnknownStateError(f"{msg}, {sorted(known)}, got {name!r}; {remedy}")
    # `name/x` would be taken for a table of the store `name`, and be dropped with it.
    alike = sorted(each for each in known if each.startswith(f"{name}/"))
    if alike:
        msg = f"operator {operator!r}: a state can be dropped if no other state's name begins with its"
        raise IncompatibleStateError(
            f"{msg} name and a slash, got {name!r} beside {alike}; take it out of a savepoint: "
            f"Savepoint.read(spark, <this checkpoint>).remove_state({name!r})"
        )


def _check_is_gone(operator: str, name: str, since: int, registry: KeyGroupRegistry) -> None:
    """Refuse to go on without `drop_states` while key groups may have entries of a state.

    Raises:
        IncompatibleStateError: Some key groups had no records since the dropping began.
    """
    left = sorted(group for group, served_at in registry.served_at.items() if served_at < since)
    if left:
        msg = (
            f"operator {operator!r}: state {name!r} is only partly dropped: {len(left)} of "
            f"{len(registry.served_at)} key groups had no records since and may still have it "
            f"({_few(left)}), got no drop_states for it"
        )
        raise IncompatibleStateError(
            f"{msg}; keep drop_states=[{name!r}] until they had records, or begin a new checkpoint "
            f"with from_savepoint=Savepoint.read(spark, <this checkpoint>)"
        )


def _few(groups: list[int]) -> str:
    shown = ", ".join(map(str, groups[:_SHOWN]))
    return f"{shown}, ..." if len(groups) > _SHOWN else shown


def register_key_groups(
    storage: BlobStorage,
    record: OperatorRecord,
    groups: Iterable[int],
    time: int,
    saved: Mapping[str, Mapping[str, Any]] | None = None,
    agrees: Callable[[OperatorRecord], None] | None = None,
) -> None:
    """Check that a checkpoint is this program's, and note which key groups have records.

    Args:
        storage: The host's storage of the operator's record.
        record: Record of the program.
        groups: Key groups that have records in this micro-batch.
        time: Time of the micro-batch, in ms.
        saved: Declarations of the states in the savepoint that the checkpoint begins with.  States
            that the program leaves out are stored, too.
        agrees: Raises an error if the host cannot go on from the stored record.

    Raises:
        IncompatibleStateError: The checkpoint is another operator's, or has a state that is only
            partly dropped.
        UnknownStateError: The program drops a state that the checkpoint does not have.
        CorruptStateError: The record or the registry is damaged.
    """
    where = f"operator {record.identity.name!r}"
    blob = storage.read_segment(REGISTRY_AT)
    former = KeyGroupRegistry(b"", {}) if blob is None else KeyGroupRegistry.from_bytes(blob, where)
    # The registry has the record's digest, so one read is enough if the program has not changed.
    if former.record != record.digest:
        if blob is None:
            written = attrs.evolve(record, states={**(saved or {}), **record.states})
            # A new checkpoint has no states, so each name that is dropped is refused.
            for name in record.dropped:
                _check_can_be_dropped(record.identity.name, name, ())
            _write_record(storage, written, where)
        else:
            _write_record(storage, record, where, (former, time), agrees)
    registry = former.add_batch(record.digest, groups, time)
    if registry != former:
        storage.write_segment(REGISTRY_AT, registry.to_bytes())


def _write_record(
    storage: BlobStorage,
    record: OperatorRecord,
    where: str,
    before: tuple[KeyGroupRegistry, int] | None = None,
    agrees: Callable[[OperatorRecord], None] | None = None,
) -> None:
    """Write the record of a program.

    Args:
        storage: The host's storage of the operator's record.
        record: The program's record, not yet merged with the stored one.
        where: Name of the operator, for messages.
        before: The registry before the micro-batch, and the batch's time in ms.  None for a new
            checkpoint.
        agrees: Raises an error if the host cannot go on from the stored record.
    """
    stored = storage.read_segment(RECORD_AT)
    if (stored is None) is not (before is None):
        msg = (
            f"{where}: its record and the registry of its key groups are written together, got one"
        )
        raise CorruptStateError(f"{msg} without the other; go back to a checkpoint")
    # `after` refuses another program before `agrees` compares details.
    if stored is not None and before is not None:
        former = OperatorRecord.from_bytes(stored, where)
        record = record.after(former, *before)
        if agrees is not None:
            agrees(former)
    blob = record.to_bytes()
    if blob != stored:
        storage.write_segment(RECORD_AT, blob)


def _declare(name: str, said: Mapping[str, Any]) -> Declaration:
    """Build a declaration of the parts of a state that never change, or in one direction only.

    The declarations in the logs have more parts: a store's scope, the width of its windows, and
    settings that may change in some orders only.  The log of each key group compares these.
    """
    kind = f"{said['store']} store" if "store" in said else said["kind"]
    types = {each: said.get(each, "") for each in ("key", "user_key", "value", "namespace")}
    settings = settings_said({"ttl": said.get("ttl")})
    return Declaration(name=name, kind=kind, shape="", settings=settings, **types)


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _describe_damage(where: str, blob: bytes) -> str:
    return (
        f"{where}: the record must be the JSON object that was written, got {blob[:200]!r}; "
        "go back to a checkpoint"
    )


# The registry


_MAGIC = b"PFR"
_HEADER = struct.Struct("<3sB8sII")
_CHECKSUM = struct.Struct("<I")
_GROUP = struct.Struct("<iq")


@attrs.frozen
class KeyGroupRegistry:
    """The key groups that had records, each with the time of its last ones.

    Args:
        record: `OperatorRecord.digest` of the program that wrote the registry last.
        served_at: When each key group last had records: the time of the micro-batch in ms.
    """

    record: bytes
    served_at: Mapping[int, int]

    def add_batch(self, record: bytes, groups: Iterable[int], time: int) -> KeyGroupRegistry:
        """Return the registry after a micro-batch.

        Args:
            record: Digest of the program's record.
            groups: Key groups that had records in the micro-batch.
            time: Time of the micro-batch, in ms.
        """
        return KeyGroupRegistry(record, {**self.served_at, **dict.fromkeys(groups, time)})

    def to_bytes(self) -> bytes:
        """Return the registry as it is stored, with its checksum."""
        plain = b"".join(_GROUP.pack(*each) for each in sorted(self.served_at.items()))
        stored = zlib.compress(plain, 1)
        head = _HEADER.pack(_MAGIC, FORMAT_VERSION, self.record, len(self.served_at), len(stored))
        return head + _CHECKSUM.pack(zlib.crc32(stored, zlib.crc32(head))) + stored

    @classmethod
    def from_bytes(cls, blob: bytes, where: str) -> KeyGroupRegistry:
        """Read a registry that `to_bytes` wrote.

        Args:
            blob: The bytes that were stored; untrusted.
            where: Name of the operator, for messages.

        Raises:
            CorruptStateError: The blob is no registry, is damaged, or is of another format.
        """
        try:
            magic, version, record, count, size = _HEADER.unpack_from(blob)
            if magic == _MAGIC:
                check_version(version, where)
            (checksum,) = _CHECKSUM.unpack_from(blob, _HEADER.size)
            stored = blob[_HEADER.size + _CHECKSUM.size :]
            whole = magic == _MAGIC and len(stored) == size
            if not whole or checksum != zlib.crc32(stored, zlib.crc32(blob[: _HEADER.size])):
                raise CorruptStateError(_describe_registry_damage(where, blob))
            # Limit the size to what the header says: crafted bytes may decompress to any size.
            plain = zlib.decompressobj().decompress(stored, count * _GROUP.size)
            return cls(record, dict(_GROUP.iter_unpack(plain)))
        except (struct.error, zlib.error) as error:
            raise CorruptStateError(_describe_registry_damage(where, blob)) from error


def _describe_registry_damage(where: str, blob: bytes) -> str:
    return (
        f"{where}: the registry of its key groups must have the checksum it was written with, got "
        f"{len(blob)} bytes that do not; go back to a checkpoint"
    )


# The identity


_SAVEPOINT = "begin a new checkpoint with from_savepoint=read_savepoint(spark, <this checkpoint>)"
_ALIKE = {"tinyint": "int", "smallint": "int"}
"""Types that Spark hashes like another type, so that their values are the same keys."""


@attrs.frozen
class OperatorIdentity:
    """The properties of an operator that decide where its keys are found.

    Args:
        name: The uid of the operator.  If the program gives no uid, the name of the function's
            class.
        max_parallelism: The number of key groups.
        key_columns: Names and types, as the host calls them, of the columns that make the key.
            Empty if a selector makes the keys.
        key: Signature of the keys' type.
    """

    name: str
    max_parallelism: int
    key_columns: tuple[tuple[str, str], ...] = ()
    key: str = ""

    @property
    def text(self) -> str:
        """Everything but `max_parallelism`, which a head has as a field of its own."""
        parts = [self.name, self.key_columns, self.key]
        return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def of_text(cls, text: str, max_parallelism: int) -> OperatorIdentity:
        """Parse an identity from its `text`.

        Raises:
            CorruptStateError: The text is not an identity.
        """
        try:
            name, columns, key = json.loads(text)
            found = cls(
                name, max_parallelism, tuple((column, kind) for column, kind in columns), key
            )
        except (ValueError, TypeError) as error:
            msg = f"the identity of an operator must be a JSON list, got {text[:200]!r}"
            raise CorruptStateError(f"{msg}; go back to a checkpoint") from error
        return found

    def check(self, stored: OperatorIdentity) -> None:
        """Refuse the state of another operator.

        Args:
            stored: The identity that the state was written under.

        Raises:
            IncompatibleStateError: This operator would not find its keys in that state.
        """
        if self.name != stored.name:
            raise IncompatibleStateError(
                f"operator {self.name!r}: its place in the query is fixed by the checkpoint, which has "
                f"operator {stored.name!r} there; put the operators back into their order, pass "
                f"uid={stored.name!r} if it is the same operator under another name (its states are "
                "compared then), or begin a new checkpoint with "
                "from_savepoint=read_savepoint(spark, <this checkpoint>, operator_id=<its number>)"
            )
        if self.max_parallelism != stored.max_parallelism:
            raise self._refusal(
                "max_parallelism is",
                str(stored.max_parallelism),
                str(self.max_parallelism),
                f"pass max_parallelism={stored.max_parallelism}, or {_SAVEPOINT}",
            )
        self._check_keys(stored)

    def _check_keys(self, stored: OperatorIdentity) -> None:
        if _columns_to_compare(self.key_columns) != _columns_to_compare(stored.key_columns):
            raise self._refusal(
                "the key columns are",
                _describe(stored.key_columns),
                _describe(self.key_columns),
                f"key by the former{self._other_way(stored)}",
            )
        if self.key != stored.key:
            raise self._refusal(
                "the type of the keys is",
                stored.key,
                self.key,
                "go on with the version of pyflinklike that wrote it",
            )

    def _other_way(self, stored: OperatorIdentity) -> str:
        if [name for name, _ in self.key_columns] == [name for name, _ in stored.key_columns]:
            return f", or {_SAVEPOINT}, which takes keys that are values of both types"
        # A savepoint stores keys without column names, so another order would give other keys.
        return " (rename or cast before key_by), or begin a new checkpoint without this state"

    def _refusal(self, what: str, former: str, got: str, remedy: str) -> IncompatibleStateError:
        return IncompatibleStateError(
            f"operator {self.name!r}: {what} fixed by its checkpoint at {former}, got {got}; {remedy}"
        )


def _columns_to_compare(columns: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [(name, _ALIKE.get(kind, kind)) for name, kind in columns]


def _describe(columns: tuple[tuple[str, str], ...]) -> str:
    return f"({', '.join(f'{name} {kind}' for name, kind in columns)})"
