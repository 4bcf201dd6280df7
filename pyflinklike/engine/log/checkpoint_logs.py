# SPDX-License-Identifier: Apache-2.0
"""The logs of an operator, read from a checkpoint and compared with its record and roll.

The store of the state may have lost some of it without an error: a damaged file that is read up to
the damage looks like a shorter one.  So each key group of the roll must be there, with the state
after the last micro-batch that had records for it, and no other key group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyflinklike.errors import CorruptStateError
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.operator_record import RECORD_AT, ROLL_AT, OperatorRecord
from pyflinklike.log.roll import Roll
from pyflinklike.log.savepoint import read_log
from pyflinklike.log.segments import Segment
from pyflinklike.log.storage import Head

__all__ = ["check_groups", "check_head", "checked_log", "checked_logs", "record_and_roll"]


def record_and_roll(blobs: Mapping[int, bytes], where: str) -> tuple[OperatorRecord, Roll]:
    """Read the record and the roll of an operator.

    Args:
        blobs: Blobs stored beside the key groups, by sequence number.
        where: Name of the operator, for messages.

    Raises:
        CorruptStateError: One of them is missing or damaged.
    """
    if RECORD_AT not in blobs or ROLL_AT not in blobs:
        msg = f"{where}: state must hold the record of its operator and the roll of its key groups"
        raise CorruptStateError(f"{msg}, got numbers {sorted(blobs)}; go back to a checkpoint")
    record = OperatorRecord.from_bytes(blobs[RECORD_AT], where)
    return record, Roll.from_bytes(blobs[ROLL_AT], where)


def checked_logs(
    record: OperatorRecord,
    roll: Roll,
    groups: Mapping[int, tuple[Head, Mapping[int, bytes]]],
    where: str,
) -> dict[str, list[Segment]]:
    """Read the segments of all key groups that count, by the name of each group for messages.

    Args:
        record: Record of the operator.
        roll: Roll of the operator.
        groups: Head and segments of each key group, by index.
        where: Name of the operator, for messages.

    Raises:
        CorruptStateError: Something is missing, too much, or not of the operator.
    """
    check_groups(roll, groups, where)
    logs = {}
    for index, (head, segments) in groups.items():
        place = f"{where}, key group {index}"
        logs[place] = checked_log(record.identity, roll.served_at[index], head, segments, place)
    return logs


def check_groups(roll: Roll, groups: Collection[int], where: str) -> None:
    """Refuse key groups that are not those of the roll.

    Args:
        roll: Roll of the operator.
        groups: Indexes of the key groups that were found.
        where: Name of the operator, for messages.

    Raises:
        CorruptStateError: A key group is missing, or too much.
    """
    unlike = sorted(roll.served_at.keys() ^ set(groups))
    if unlike:
        msg = (
            f"{where}: its key groups must be the {len(roll.served_at)} that its roll names, got "
            f"{len(groups)}, which differ in {_some(unlike)}"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")


def checked_log(
    identity: OperatorIdentity,
    served_at: int,
    head: Head,
    segments: Mapping[int, bytes],
    where: str,
) -> list[Segment]:
    """Read the segments of one key group that count.

    Args:
        identity: Identity in the operator's record.
        served_at: Time in the roll at which the key group last had records, in ms.
        head: Head of the group.
        segments: Blobs by sequence number; there may be more than count.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: Something is missing, or not of the operator.
    """
    check_head(head, identity, served_at, where)
    return read_log(head, segments, where)


def check_head(head: Head, identity: OperatorIdentity, served_at: int, where: str) -> None:
    """Refuse the head of a key group that does not agree with the record and the roll.

    Args:
        head: Head of the group.
        identity: Identity in the operator's record.
        served_at: Time in the roll at which the key group last had records, in ms.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: It does not agree.
    """
    if head.identity != identity.text or head.max_parallelism != identity.max_parallelism:
        msg = (
            f"{where}: a key group must be of the operator {identity.text} with "
            f"{identity.max_parallelism} key groups, got {head.identity} with {head.max_parallelism}"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")
    if head.served_at != served_at:
        msg = (
            f"{where}: its state must be that after the micro-batch of {served_at} ms, which the "
            f"roll says had records for it last, got that after {head.served_at} ms"
        )
        raise CorruptStateError(f"{msg}; go back to a checkpoint")


def _some(numbers: list[int]) -> str:
    more = len(numbers) - 10
    return ", ".join(map(str, numbers[:10])) + (f" and {more} more" if more > 0 else "")
