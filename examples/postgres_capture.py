# SPDX-License-Identifier: Apache-2.0
"""Turns PostgreSQL's logical decoding into Debezium's records, as Debezium's connector does.

`Capture` creates a replication slot with the plugin `pgoutput`, which every PostgreSQL has and
Debezium uses.  It reads the changes over SQL and writes records:

* a snapshot of the table as `r` records, then every committed change as `c`, `u` or `d`
* a tombstone after each delete
* a delete, a tombstone and a create for a changed primary key
* a placeholder for a large column that an update did not change, because the log has no value
* `lsn` and `sequence` (the last commit, the change) in the `source` block
* records at least once: a connector that restarts repeats unacknowledged records

PostgreSQL's manual describes the protocol, version 1, in "Logical Replication Message Formats".
"""

import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from postgres_server import Session

UNAVAILABLE = "__debezium_unavailable_value"
SLOT, PUBLICATION = "cdc_slot", "cdc_publication"
PARTITIONS = 2

_TO_2000_MS = 946_684_800_000
_UNCHANGED = object()
# By the OID of the type.  Other types are text; numeric too (decimal.handling.mode=string).
_CONVERT: dict[int, Callable[[str], Any]] = {
    16: lambda text: text == "t",
    20: int,
    21: int,
    23: int,
    700: float,
    701: float,
    1184: lambda text: text.replace(" ", "T").replace("+00", "Z"),  # as ZonedTimestamp
}


class Relation(NamedTuple):
    """A table as the log describes it."""

    schema: str
    table: str
    columns: list[str]
    types: list[int]


class Capture:
    """Captures the changes of one table into files.

    Args:
        session: A connection for the capture alone.
        table: A table in the schema `public`.
        key: The columns of its primary key.
        directory: The directory for the files; each file has a batch of records as JSON lines.
    """

    def __init__(self, session: Session, table: str, key: Sequence[str], directory: Path) -> None:
        self._session = session
        self._table = table
        self._key = tuple(key)
        self._directory = directory
        self._relations: dict[int, Relation] = {}
        self._last_commit: int | None = None
        self._offsets: Counter[int] = Counter()
        self._files = 0
        self._unacknowledged: list[tuple[str | None, str | None]] = []
        directory.mkdir(parents=True)
        session.run(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {table}")
        slot = f"SELECT lsn FROM pg_create_logical_replication_slot('{SLOT}', 'pgoutput')"
        (lsn,) = session.run(slot)
        self._snapshot_lsn = _number(lsn)

    def __enter__(self) -> "Capture":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.__exit__(kind, error, trace)

    def snapshot(self) -> int:
        """Write the current rows, with the log position from which changes follow.

        Returns:
            The number of records.
        """
        at = int(self._session.run("SELECT (extract(epoch FROM now()) * 1000)::bigint")[0])
        records = []
        for line in self._session.run(f"SELECT row_to_json(t) FROM {self._table} t"):
            row = {
                name: value.replace("+00:00", "Z") if name == "changed" else value
                for name, value in json.loads(line, parse_float=str).items()
            }
            source = self._source(self._snapshot_lsn, None, at, "true")
            records.append(_record(self._key_of(row), "r", None, row, source))
        self._write(records)
        return len(records)

    def changes(self) -> int:
        """Write the changes committed since the last call.

        It also repeats the records of the last call, as a connector does after a restart.

        Returns:
            The number of new records.
        """
        query = (
            "SELECT lsn, xid, encode(data, 'hex') FROM pg_logical_slot_get_binary_changes("
            f"'{SLOT}', NULL, NULL, 'proto_version', '1', 'publication_names', '{PUBLICATION}')"
        )
        records = list(self._records(self._session.run(query)))
        self._write([*self._unacknowledged, *records])
        self._unacknowledged = records
        return len(records)

    def _records(self, messages: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
        at, commit = 0, 0
        for message in messages:
            lsn, xid, data = message.split("|")
            reader = _Reader(bytes.fromhex(data))
            kind = reader.character()
            if kind == "B":
                reader.int64()
                at = _TO_2000_MS + reader.int64() // 1000
            elif kind == "C":
                reader.skip(1)
                commit = reader.int64()
                self._last_commit = commit
            elif kind == "R":
                oid, relation = reader.relation()
                self._relations[oid] = relation
            elif kind in "IUD":
                relation = self._relations[reader.int32()]
                source = self._source(_number(lsn), int(xid), at, "false")
                yield from self._change(kind, reader, relation, source)

    def _change(
        self, kind: str, reader: "_Reader", relation: Relation, source: dict[str, Any]
    ) -> Iterator[tuple[str | None, str | None]]:
        """Yield the records for a change of a row."""
        before = after = None
        part = reader.character()
        if part in "KO":
            before = reader.row(relation)
            part = reader.character() if kind == "U" else ""
        if part == "N":
            after = reader.row(relation, before)
        new = self._key_of(after)
        # If the log has neither the old row nor the old key, the key did not change.
        old = new if before is None else self._key_of(before)
        if kind == "I":
            yield _record(new, "c", None, after, source)
        elif kind == "U" and old == new:
            yield _record(new, "u", before, after, source)
        else:
            yield _record(old, "d", before, None, source)
            yield json.dumps(old), None
            if kind == "U":
                yield _record(new, "c", None, after, source)

    def _key_of(self, row: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if row is None else {name: row[name] for name in self._key}

    def _source(self, lsn: int, xid: int | None, at: int, snapshot: str) -> dict[str, Any]:
        last = None if self._last_commit is None else str(self._last_commit)
        return {
            "version": "2.5.0.Final",
            "connector": "postgresql",
            "name": "example",
            "ts_ms": at,
            "snapshot": snapshot,
            "db": "postgres",
            "sequence": json.dumps([last, str(lsn)]),
            "schema": "public",
            "table": self._table,
            "txId": xid,
            "lsn": lsn,
            "xmin": None,
        }

    def _write(self, records: Sequence[tuple[str | None, str | None]]) -> None:
        lines = []
        for key, value in records:
            partition = zlib.crc32((key or "").encode()) % PARTITIONS
            place = {"partition": partition, "offset": self._offsets[partition]}
            self._offsets[partition] += 1
            lines.append(json.dumps({"key": key, "value": value, **place}) + "\n")
        # The stream must not see half a file.
        half = self._directory / f"_{self._files:04}.json"
        half.write_text("".join(lines))
        half.rename(self._directory / f"{self._files:04}.json")
        self._files += 1


def _record(
    key: dict[str, Any] | None,
    op: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    source: dict[str, Any],
) -> tuple[str | None, str | None]:
    envelope = {
        "before": before,
        "after": after,
        "source": source,
        "op": op,
        "ts_ms": source["ts_ms"],
    }
    return json.dumps(key), json.dumps(envelope)


def _number(lsn: str) -> int:
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


class _Reader:
    """Reads a message of `pgoutput`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def skip(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        self._at += size
        return part

    def character(self) -> str:
        return self.skip(1).decode()

    def int16(self) -> int:
        number: int = struct.unpack(">h", self.skip(2))[0]
        return number

    def int32(self) -> int:
        number: int = struct.unpack(">i", self.skip(4))[0]
        return number

    def int64(self) -> int:
        number: int = struct.unpack(">q", self.skip(8))[0]
        return number

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        part = self._data[self._at : end].decode()
        self._at = end + 1
        return part

    def relation(self) -> tuple[int, Relation]:
        oid, schema, table = self.int32(), self.text(), self.text()
        self.skip(1)
        columns, types = [], []
        for _ in range(self.int16()):
            self.skip(1)
            columns.append(self.text())
            types.append(self.int32())
            self.skip(4)
        return oid, Relation(schema, table, columns, types)

    def row(self, relation: Relation, before: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the values of a row.

        Args:
            relation: The table of the row.
            before: The old row; it has the large values that an update did not change.
        """
        values: dict[str, Any] = {}
        self.skip(2)
        for name, oid in zip(relation.columns, relation.types):
            kind = self.character()
            if kind == "t":
                text = self.skip(self.int32()).decode()
                values[name] = _CONVERT.get(oid, str)(text)
            else:
                known = before and before[name]
                values[name] = (known or UNAVAILABLE) if kind == "u" else None
        return values
