# SPDX-License-Identifier: Apache-2.0
"""The image of an operator after one micro-batch: the logs of its key groups, as they are stored.

An image never changes.  The next image is made from it and from the writes since, and the two share
every key group that did not change.  A replica reads the writes from Spark's change feed, which it
does not trust to be complete.  Nonces prove that the result is the state from which the operator
went on: each segment of a log names the nonce of the segment before, and the registry names the last
time at which each key group was served.  If a write is missing, one of these does not fit, and the
replica reads everything anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

import attrs

from pyflinklike._changelog.log_storage import Head
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segment_chain import read_chain, read_one
from pyflinklike._checks import is_int
from pyflinklike._clock import wall_clock
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    StateAccessError,
)
from pyflinklike.state_processor._logs.checkpoint_logs import (
    check_groups,
    check_head,
    head_of,
    record_and_registry,
)
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.key_columns import list_keys
from pyflinklike.types import TypeInformation


@attrs.frozen(order=True)
class Position:
    """The micro-batch after which an answer holds; a later batch is greater.

    Args:
        batch_id: The number of the micro-batch; -1 for a savepoint that no query made.
        watermark: The operator's watermark in that batch, in ms; None before the first watermark.
        committed_at: The time in ms at which the batch was committed or the savepoint was taken.
        now: Returns the time in ms.
    """

    batch_id: int
    watermark: int | None = attrs.field(order=False)
    committed_at: int = attrs.field(order=False)
    now: Callable[[], int] = attrs.field(default=wall_clock, eq=False, order=False, repr=False)

    @property
    def age(self) -> int:
        """The time since the commit, in ms."""
        return self.now() - self.committed_at


@attrs.frozen
class StoredShare:
    """The key groups and keys that a replica holds, in their stored form.

    Args:
        groups: Numbers of key groups; None holds all.
        keys: Keys as they are stored; None holds all keys of these groups.
    """

    groups: frozenset[int] | None = None
    keys: frozenset[Hashable] | None = attrs.field(default=None, repr=False)

    def has_group(self, index: int) -> bool:
        """Return whether a key group is held."""
        return self.groups is None or index in self.groups

    def has_key(self, frozen: Hashable) -> bool:
        """Return whether a key may be asked for, if its key group is held."""
        return self.keys is None or frozen in self.keys

    def check(self, key: Any, frozen: Hashable, index: int) -> None:
        """Check that a key is held.

        Args:
            key: The key in the user's form, for messages.
            frozen: The key as it is stored.
            index: The key group of the key.

        Raises:
            StateAccessError: The key is not held.
        """
        if not self.has_key(frozen):
            msg = f"this replica was opened with other keys=, got {short_repr(key)}"
            raise StateAccessError(f"{msg}; open one with this key, or without keys=")
        if not self.has_group(index):
            msg = f"this replica was opened with key_groups=, and holds {_some(self.groups)}"
            raise StateAccessError(
                f"{msg}, got {short_repr(key)} of key group {index}; open one with it, or with all"
            )


def _some(groups: frozenset[int] | None) -> str:
    named = sorted(groups or ())
    return f"key groups {named[:10]}" + (f" and {len(named) - 10} more" if named[10:] else "")


ALL = StoredShare()


@attrs.frozen
class Image:
    """The state of an operator after a micro-batch, as a replica holds it.

    Args:
        position: The micro-batch after which the image holds.
        record: The operator record, which declares the states.
        clock: The times of the operator in that batch.
        groups: The logs of the key groups, by their numbers.
        called: The operator record and registry as they are stored, by sequence number.
        where: Names the image in messages.
        operator_id: The host's number of the operator.
        share: The key groups and keys that the image has.
    """

    position: Position
    record: OperatorRecord
    clock: BatchClock
    groups: Mapping[int, GroupLog] = attrs.field(repr=False)
    called: Mapping[int, bytes] = attrs.field(repr=False)
    where: str
    operator_id: int = 0
    share: StoredShare = ALL

    @property
    def bytes(self) -> int:
        """The size of the logs as they are stored, in bytes."""
        return sum(len(blob) for log in self.groups.values() for blob in log.blobs.values())


@attrs.frozen
class GroupLog:
    """The log of a key group: a `LogStorage` that is only read.

    Args:
        head: The head of the group.
        blobs: The stored head and segments, by sequence number.
    """

    head: Head
    blobs: Mapping[int, bytes] = attrs.field(repr=False)

    def read_head(self, where: str) -> Head:  # noqa: ARG002
        """Return the head."""
        return self.head

    def read_segment(self, sequence: int) -> bytes | None:
        """Return one segment, or None if it is missing."""
        return self.blobs.get(sequence)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        msg = "a replica is read only, got a write to its log; write to the stream"
        raise StateAccessError(msg)

    write_head = write_segment = clear_segments = _refuse


def image_of(
    position: Position,
    clock: BatchClock,
    groups: Mapping[int, Mapping[int, bytes]],
    called: Mapping[int, bytes],
    where: str,
    operator_id: int = 0,
    share: StoredShare = ALL,
) -> Image:
    """Make an image of the stored blobs of a checkpoint.

    Args:
        position: The micro-batch after which the image holds.
        clock: The times of the operator in that batch.
        groups: The blobs of each key group that is held, the head included, by its number.
        called: The operator record and registry as they are stored, by sequence number.
        where: Names the image in messages.
        operator_id: The host's number of the operator.
        share: The key groups and keys that the image has.

    Raises:
        CorruptStateError: A blob or key group is missing, unexpected or damaged.  A segment is
            decoded, and so checked, only when its key group is first read.
    """
    logs = {
        index: _group_log(blobs, f"{where}, key group {index}") for index, blobs in groups.items()
    }
    return _make_image(position, clock, logs, called, where, operator_id, share)


def _make_image(
    position: Position,
    clock: BatchClock,
    logs: Mapping[int, GroupLog],
    called: Mapping[int, bytes],
    where: str,
    operator_id: int,
    share: StoredShare,
) -> Image:
    """Check the logs of the held key groups against the registry, and make an image of them."""
    record, registry = record_and_registry(called, where)
    served_at = {at: time for at, time in registry.served_at.items() if share.has_group(at)}
    check_groups(attrs.evolve(registry, served_at=served_at), logs, where)
    for index, log in logs.items():
        place = f"{where}, key group {index}"
        check_head(log.head, record.identity, registry.served_at[index], place)
    return Image(position, record, clock, logs, called, where, operator_id, share)


def _group_log(blobs: Mapping[int, bytes], where: str) -> GroupLog:
    """Make the log of a key group of its blobs.

    Args:
        blobs: The stored blobs by sequence number, the head included.
        where: Names the key group in messages.

    Raises:
        CorruptStateError: The head is missing, or a segment.
    """
    head = head_of(blobs, where)
    missing = [at for at in range(head.first_sequence, head.next_sequence) if at not in blobs]
    if missing:
        msg = f"{where}: the log must be whole, got no segments {missing}; go back to a checkpoint"
        raise CorruptStateError(msg)
    return GroupLog(head, blobs)


# The next image


class Write(NamedTuple):
    """One write to the stored logs of an operator.

    Args:
        key_group: The number of the key group; None for the record and the registry.
        sequence: The number under which the blob is stored.
        blob: The stored bytes; None removes the entry.
    """

    key_group: int | None
    sequence: int
    blob: bytes | None


def next_image(
    image: Image, writes: Iterable[Write], position: Position, clock: BatchClock, where: str
) -> Image:
    """Make the image after some writes.

    Args:
        image: The image before the writes.
        writes: All writes since, in order within a key group.
        position: The micro-batch of the result.
        clock: The times of that micro-batch.
        where: Names the result in messages.

    Raises:
        CorruptStateError: The writes do not follow the image, or some are missing.  The caller then
            has to read everything anew.
    """
    # The order of writes counts: a commit with a compaction writes its own segments, then removes
    # all segments, then writes the snapshot.
    changed: dict[int | None, dict[int, bytes]] = {}
    for write in writes:
        # A replica of some key groups must not take in others: it lacks their former segments.
        if write.key_group is not None and not image.share.has_group(write.key_group):
            continue
        blobs = changed.get(write.key_group)
        if blobs is None:
            blobs = changed[write.key_group] = _copy(image, write.key_group)
        if write.blob is None:
            blobs.pop(write.sequence, None)
        else:
            blobs[write.sequence] = write.blob
    called = changed.pop(None, image.called)
    logs = dict(image.groups)
    for index, blobs in changed.items():
        assert index is not None
        place = f"{where}, key group {index}"
        logs[index] = _next(image.groups.get(index), blobs, place)
    return _make_image(position, clock, logs, called, where, image.operator_id, image.share)


def _copy(image: Image, index: int | None) -> dict[int, bytes]:
    if index is None:
        return dict(image.called)
    return dict(image.groups[index].blobs) if index in image.groups else {}


def _next(former: GroupLog | None, blobs: Mapping[int, bytes], where: str) -> GroupLog:
    log = _group_log(blobs, where)
    head = log.head
    first, parent = head.first_sequence, b""
    if former is not None and former.head.nonce:
        after = former.head.next_sequence
        if head.nonce == former.head.nonce:
            first, parent = head.next_sequence, head.nonce  # only times changed in this batch
        elif head.first_sequence < after < head.next_sequence and (
            read_one(blobs.get, after, where).parent == former.head.nonce
        ):
            first, parent = after, former.head.nonce
    for _ in read_chain(blobs.get, range(first, head.next_sequence), parent, head.nonce, where):
        pass
    return log


# The source of images, and the share that a user asks for


class ImageSource(Protocol):
    """Reads the stored state of one operator from a host."""

    def latest(self) -> Image:
        """Read the image of the last committed micro-batch.

        Raises:
            SparkSetupError: The host cannot read it.
            CorruptStateError: The stored state is damaged.
        """

    def after(self, image: Image) -> Image | None:
        """Make the image of the last micro-batch from an earlier image.

        Returns:
            The image, or None if the earlier image is of the last micro-batch.

        Raises:
            SparkSetupError: The host cannot read the writes since the image, or no longer has them.
            CorruptStateError: The writes do not follow the image.
        """

    def key_type(self, record: OperatorRecord) -> TypeInformation:
        """Return the type of an operator's keys, in the form that its function sees."""

    def route(self, record: OperatorRecord) -> Route:
        """Return the function that finds the keys of an operator."""


Route = Callable[[Any], tuple[Any, int]]
"""Takes a key in the user's form, and returns the key as it is stored, and its key group.

It raises a `StateValueError` if the key is no value of the key columns."""


@attrs.frozen
class Share:
    """The share that a user asks `QueryableState.open` for.

    Args:
        keys: Keys in the user's form, tuples if there are several key columns; None asks for all.
        groups: Numbers of key groups; None asks for all.
    """

    keys: tuple[Any, ...] | None = None
    groups: frozenset[int] | None = None

    @classmethod
    def of(cls, keys: Iterable[Any] | None, key_groups: Iterable[int] | None) -> Share:
        """Check the arguments of a user, and make a share of them.

        Raises:
            DeclarationTypeError: An argument is not a list of keys or of numbers.
            DeclarationValueError: Both are given, one is empty, or a number is negative.
        """
        if keys is not None and key_groups is not None:
            msg = "a replica holds some keys or some key groups, got keys= and key_groups="
            raise DeclarationValueError(f"{msg}; leave one out")
        wanted = None if keys is None else tuple(list_keys(keys))
        groups = None if key_groups is None else _groups(key_groups)
        for name, given in (("keys", wanted), ("key_groups", groups)):
            if given is not None and not given:
                msg = f"{name} must name what the replica holds, got an empty list"
                raise DeclarationValueError(f"{msg}; leave it out to hold everything")
        return cls(wanted, groups)

    def store(self, route: Route, max_parallelism: int) -> StoredShare:
        """Return the stored form of this share, for one operator.

        Args:
            route: Finds stored keys and their key groups.
            max_parallelism: The number of the operator's key groups.

        Raises:
            StateValueError: A key is no value of the key columns.
            DeclarationValueError: There is no such key group.
        """
        if self.keys is not None:
            places = [route(key) for key in self.keys]
            keys = frozenset(frozen for frozen, _ in places)
            return StoredShare(frozenset(index for _, index in places), keys)
        beyond = sorted(each for each in self.groups or () if each >= max_parallelism)
        if beyond:
            msg = f"key_groups must be from 0 to {max_parallelism - 1}, got {beyond}"
            raise DeclarationValueError(f"{msg}; max_parallelism is {max_parallelism}")
        return ALL if self.groups is None else StoredShare(self.groups)


def _groups(given: Any) -> frozenset[int]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        msg = f"key_groups takes a list of numbers, got {short_repr(given)}"
        raise DeclarationTypeError(f"{msg}; write key_groups=[...]")
    found = list(given)
    for each in found:
        if not is_int(each):
            msg = f"key_groups takes a list of numbers, got {short_repr(each)} in it; give ints"
            raise DeclarationTypeError(msg)
        if each < 0:
            msg = f"key_groups takes numbers from 0 on, got {each}; leave it out to hold all"
            raise DeclarationValueError(msg)
    return frozenset(found)
