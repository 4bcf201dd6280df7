# SPDX-License-Identifier: Apache-2.0
"""The change of one row in a Debezium record, and its position in the database's log.

Kafka delivers a record at least once, and a topic's partitions in any order, but the log of the
database has one order.  An order key is a tuple of integers that compares as the log does.  Python
compares tuples from left to right, and Spark does the same with arrays of BIGINT.

    (1, *commit position, streamed, *position within the commit)   from the source block
    (0, partition, offset)                                         if it has no position

Rules:

1. If a connector has the position of the commit and the position of the change, the commit's comes
   first.  A transaction that was open during the snapshot has changes that lie before the snapshot
   in the log and yet are newer, because commits decide what is newer.
2. `streamed` is 0 for a row that a snapshot read and 1 for a change from the log: at the same
   position the snapshot is the older one.
3. A record without a position (a tombstone has no envelope) is below every record with one, so the
   tombstone after a delete never wins over a row that is inserted later.
4. If a change is delivered twice, both records have the same key, whatever their offsets.  MongoDB's
   position does not distinguish all changes, so there the offset is part of the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

# The codes of Debezium's `Envelope.Operation`
CREATE: Final = "c"
UPDATE: Final = "u"
REMOVE: Final = "d"
READ: Final = "r"
TRUNCATE: Final = "t"
MESSAGE: Final = "m"


class CdcEvent(NamedTuple):
    """A change of one row, decoded from a Debezium record.

    It is a tuple for speed, because every record makes one.  An upsert takes `after` as the value
    (None deletes) and `order_key` as its order.
    """

    op: str | None
    """`c` create, `u` update, `d` delete (also for a tombstone), `r` read by a snapshot,
    `t` truncate; None if the record could not be read."""
    key: Any
    """The value of the key column, or a tuple for several columns; None for a truncation."""
    before: Mapping[str, Any] | None
    """The row before, with the columns that the database logs."""
    after: Mapping[str, Any] | None
    """The row after; None for a delete, a tombstone and a truncation."""
    order_key: Any = None
    """Sorts the events of a key: a tuple of ints by default, or the result of `order`."""
    event_time: int | None = None
    """The time at which the database committed the change, in ms since the epoch."""
    snapshot: bool = False
    """True if a snapshot read the row; False if it comes from the database's log."""
    source: Mapping[str, Any] | None = None
    """The `source` block of the envelope."""
    error: str | None = None
    """The reason why the record could not be read, with `on_error="inline"`; else None."""
    unavailable: tuple[str, ...] = ()
    """Columns that the change did not touch and whose value the record does not have; `after` lacks
    them."""


OrderKey: TypeAlias = tuple[int, ...]

_POSITION, _OFFSET = 1, 0
LOWEST: Final[OrderKey] = (_OFFSET,)
"""The order of a tombstone that has no offset."""
_BINLOG = re.compile(r"\.(\d+)$")
# Sixteen hexadecimal digits would need the sign bit of a BIGINT.
_HEX_DIGITS_OF_A_BIGINT = 15
_SEQUENCE = msgspec.json.Decoder(list[int | None], strict=False)  # of numbers as text


def is_snapshot(source: Mapping[str, Any], op: str | None) -> bool:
    """Return whether a record belongs to a snapshot, initial or incremental.

    Args:
        source: The `source` block of the envelope; its `snapshot` is a string, or a boolean from
            connectors before 1.0.
        op: The envelope's operation, in lower case.
    """
    return op == "r" or source.get("snapshot") not in (None, False, "false")


def is_position(order_key: OrderKey) -> bool:
    """Return whether an order key is a position in the database's log."""
    return order_key[0] == _POSITION


def offset_order(partition: int | None, offset: int | None) -> OrderKey | None:
    """Return the order of a record without a position; None if it has no offset."""
    return None if offset is None else (_OFFSET, partition or 0, offset)


def coordinates(
    order_key: tuple[Any, ...], source: Mapping[str, Any]
) -> tuple[int | None, int | None]:
    """Return the partition and offset in an order key, each None if the key does not have it.

    Args:
        order_key: A result of `source_order` or `offset_order`, or only partition and offset.
        source: The `source` block that the key was made from.
    """
    if len(order_key) == 3 and order_key[0] == _OFFSET:
        order_key = order_key[1:]
    if len(order_key) == 2:
        return order_key[0], order_key[1]
    return None, order_key[-1] if order_key and source.get("ord") is not None else None


def source_order(
    source: Mapping[str, Any], *, snapshot: bool, offset: int | None = None
) -> OrderKey | None:
    """Return the order of a record by its source block.

    Args:
        source: The block of PostgreSQL, MySQL and MariaDB, SQL Server, Db2, Informix, Oracle or
            MongoDB; its fields say which.
        snapshot: Whether a snapshot read the row.
        offset: The record's offset; used if the position does not distinguish all changes.

    Returns:
        None if the block has no position that can be compared.

    Raises:
        ValueError: The position does not have the connector's form.
    """
    streamed = 0 if snapshot else 1
    if source.get("lsn") is not None:
        return _postgresql(source, streamed)
    if source.get("commit_lsn") is not None:
        return _sql_server(source, streamed)
    if source.get("commit_scn") is not None or source.get("scn") is not None:
        return _oracle(source, streamed)
    if source.get("pos") is not None:
        return _mysql(source, streamed)
    if source.get("ord") is not None:
        return _mongodb(source, streamed, offset)
    return None


def _postgresql(source: Mapping[str, Any], streamed: int) -> OrderKey:
    lsn = int(source["lsn"])
    sequence = source.get("sequence")
    # The envelope does not have the position of its own commit, but `sequence` begins with the last
    # commit before it.  `max(last commit, lsn)` never decreases over the stream.  So a change of a
    # transaction that straddles the snapshot is above the snapshot once a commit was streamed.
    parts = [None] if sequence is None else _SEQUENCE.decode(sequence)
    last_commit = parts[0] if parts else None
    return (_POSITION, lsn if last_commit is None else max(last_commit, lsn), streamed, lsn)


def _sql_server(source: Mapping[str, Any], streamed: int) -> OrderKey:
    change = source.get("change_lsn")  # None for a row of a snapshot
    return (
        _POSITION,
        *_lsn_parts(source["commit_lsn"]),
        streamed,
        *(() if change is None else _lsn_parts(change)),
        int(source.get("event_serial_no") or 0),
    )


def _lsn_parts(lsn: Any) -> OrderKey:
    """Split an LSN such as 00000027:00000758:0003; for Informix it is one decimal number."""
    groups = str(lsn).split(":")
    return (int(groups[0]),) if len(groups) == 1 else tuple(int(each, 16) for each in groups)


def _oracle(source: Mapping[str, Any], streamed: int) -> OrderKey:
    """Order by commit SCN, by SCN, and by the fields that distinguish changes of one SCN.

    LogMiner has the redo record (`rs_id`, three hexadecimal groups) and the row in it (`ssn`).
    XStream has the position of the logical change record.
    """
    scn, position = source.get("scn"), source.get("lcr_position")
    commit: Any = scn if source.get("commit_scn") is None else source["commit_scn"]
    redo = str(source.get("rs_id") or "").strip()
    return (
        _POSITION,
        int(commit),
        streamed,
        int(commit if scn is None else scn),
        *([] if position is None else _hex_parts(str(position))),
        *(int(each, 16) for each in redo.split(".") if each),
        int(source.get("ssn") or 0),
    )


def _hex_parts(text: str) -> list[int]:
    """Return a hexadecimal text of any length as numbers that compare as the text does."""
    size = _HEX_DIGITS_OF_A_BIGINT
    parts = (text[start : start + size] for start in range(0, len(text), size))
    return [int(part.ljust(size, "0"), 16) for part in parts]


def _mysql(source: Mapping[str, Any], streamed: int) -> OrderKey | None:
    """Order by binlog file, position, and row of the event.

    File names are compared by their number: mysql-bin.1000000 follows mysql-bin.999999.  A GTID does
    not help: its number counts only the transactions of one server, and the envelope does not say
    which server came first.
    """
    file = _BINLOG.search(str(source.get("file") or ""))
    if file is None:
        return None
    return (_POSITION, int(file[1]), int(source["pos"]), streamed, int(source.get("row") or 0))


def _mongodb(source: Mapping[str, Any], streamed: int, offset: int | None) -> OrderKey:
    """Order by the BSON timestamp: seconds and their ordinal.

    All changes of one transaction have the same timestamp, so the offset decides between them.
    """
    seconds = int(source.get("ts_ms") or 0) // 1000
    return (_POSITION, seconds, int(source["ord"]), streamed, offset or 0)
