# SPDX-License-Identifier: Apache-2.0
"""`QueryableState`: a replica of a query's state, which follows the query's micro-batches.

`QueryableState.open` opens one over a checkpoint.  `open_savepoint` opens one over a savepoint, whose
state does not change.

One thread looks for newer micro-batches while any number of threads read.  Each read picks one
immutable `Version`; a refresh makes the next version and replaces the reference.  So a read does not
wait for a refresh, and never mixes two micro-batches.
"""

from __future__ import annotations

import copy
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

import attrs

from pyflinklike._checks import is_int
from pyflinklike._clock import DurationLike, to_milliseconds, wall_clock
from pyflinklike._messages import short_repr, shown_message
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    StaleStateError,
    StoreClosedError,
)
from pyflinklike.queryable_state.decoded_groups import DecodedGroups, ReplicaMetrics
from pyflinklike.queryable_state.image import Image, ImageSource, Share
from pyflinklike.queryable_state.read_only_states import StateReader
from pyflinklike.queryable_state.savepoint_source import SavepointSource
from pyflinklike.queryable_state.version import OpenStates, Version, begin_waiting
from pyflinklike.state_processor._logs.state_infos import state_of
from pyflinklike.state_processor._savepoints.savepoint_directory import open_savepoint
from pyflinklike.types.pickled_type import pickle_allowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyflinklike.state_processor._checkpoints.state_frames import Location

LOG = logging.getLogger("pyflinklike.queryable_state")
CACHE_BYTES = 256 * 1024 * 1024
# A refresh that finds no newer batch lists one folder, so waiting reads may look this often.
_POLL_MS = 50


# The settings


def _length(given: DurationLike, what: str) -> int:
    """Return a length of time in ms.

    Raises:
        DeclarationTypeError: The argument is not a length of time.
        DeclarationValueError: The length is negative.
    """
    found = to_milliseconds(given, what)
    if found < 0:
        msg = f"{what} must not be negative, got {short_repr(given)}; give 0 or more"
        raise DeclarationValueError(msg)
    return found


def _state_names(given: Iterable[str] | None) -> frozenset[str] | None:
    if isinstance(given, str):
        msg = f"states takes a list of names, got {short_repr(given)}; write states=[...]"
        raise DeclarationTypeError(msg)
    return None if given is None else frozenset(given)


def _interval(given: DurationLike | None) -> int | None:
    found = None if given is None else _length(given, "refresh")
    if found == 0:
        msg = f"refresh must be at least 1 ms, got {short_repr(given)}; None never looks by itself"
        raise DeclarationValueError(msg)
    return found


def _age(given: DurationLike | None) -> int | None:
    return None if given is None else _length(given, "max_age")


def _timeout(given: DurationLike) -> int:
    return _length(given, "timeout")


def _clock(given: str) -> str:
    if given not in ("batch", "wall"):
        msg = f"clock must be one of ['batch', 'wall'], got {short_repr(given)}; choose one"
        raise DeclarationValueError(msg)
    return given


def _bytes(given: int) -> int:
    if not is_int(given) or given < 0:
        msg = f"cache_bytes takes an int of bytes from 0 on, got {short_repr(given)}"
        raise DeclarationValueError(f"{msg}; for example 256 * 1024**2")
    return given


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of a replica, checked.

    Args:
        states: Names of the states and stores that may be asked for; None allows all.
        refresh: How often the replica looks for newer batches, in ms; None means never.
        max_age: The greatest age of an answer in ms; None allows any age.
        timeout: The longest wait for a batch that a read asks for, in ms.
        clock: The time by which processing-time TTL expires: "batch" or "wall".
        allow_scan: Whether all key groups may be decoded for an answer.
        allow_pickle: Whether values may be unpickled.
        cache_bytes: The most bytes that may stay decoded.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument has a wrong type or value.
    """

    states: frozenset[str] | None = attrs.field(converter=_state_names)
    refresh: int | None = attrs.field(default=None, converter=_interval)
    max_age: int | None = attrs.field(default=None, converter=_age)
    timeout: int = attrs.field(default=0, converter=_timeout)
    clock: str = attrs.field(converter=_clock)
    allow_scan: bool = attrs.field(converter=bool)
    allow_pickle: bool = attrs.field(converter=pickle_allowed)
    cache_bytes: int = attrs.field(converter=_bytes)


# The replica


class QueryableState(StateReader):
    """The state of a query after the last micro-batch that the replica has read; made by `open`.

    Any number of threads may read while another one refreshes.  Each answer is of one micro-batch.

    Args:
        source: Reads images of the operator.
        settings: The checked arguments of `open`.
        now: Returns the time in ms.
    """

    def __init__(
        self, source: ImageSource, settings: Settings, now: Callable[[], int] = wall_clock
    ) -> None:
        self._source, self._settings, self._now = source, settings, now
        self.metrics = ReplicaMetrics()
        """Counts of the replica's own work."""
        self._refreshing = threading.Lock()
        self._begun = 0  # the number of looks; while the lock is free, the last look has ended
        self._failure: Exception | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        # Taken before the look: a batch that is committed during it is newer than its result.
        started = now()
        self._version = self._over(source.latest(), None, started)
        for name in sorted(settings.states or ()):
            state_of(self._version.states.infos.values(), name, self._version.image.where)
        super().__init__(
            self._choose, self._current, settings.states, allow_scan=settings.allow_scan
        )
        if settings.refresh is not None:
            self._thread = threading.Thread(
                target=self._follow, name="pyflinklike-replica", daemon=True
            )
            self._thread.start()

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        checkpoint: Location,
        *,
        states: Iterable[str] | None = None,
        operator: int | str = 0,
        keys: Iterable[Any] | None = None,
        key_groups: Iterable[int] | None = None,
        refresh: DurationLike | None = timedelta(seconds=1),
        max_age: DurationLike | None = None,
        timeout: DurationLike = timedelta(seconds=10),
        clock: str = "batch",
        allow_scan: bool = False,
        allow_pickle: bool = False,
        cache_bytes: int = CACHE_BYTES,
    ) -> QueryableState:
        """Open a replica of a query's state, which follows its micro-batches and answers by key.

        The query may be running, in this process or another.  The logs of all its key groups are
        read once, and after that only the writes of micro-batches.  A key group is decoded when a
        read first asks for it.  Each answer is of one committed micro-batch, which `position` names.
        If Spark has purged the writes, or the query went back to an earlier batch, the replica reads
        everything anew; `metrics.reopens` counts this.

            with QueryableState.open(spark, "/checkpoints/visits", states=["pages"]) as state:
                state["pages"].get("ann")

        Args:
            spark: Any session that reaches the checkpoint.
            checkpoint: The checkpointLocation of the query.
            states: The names of the states and stores that will be asked for; by default all.
            operator: Spark's number of the stateful operator, or its uid.
            keys: The keys that will be asked for, as tuples if there are several key columns; only
                their key groups are fetched and held.  By default all keys.
            key_groups: The indices of the key groups to fetch and hold; `items()` and stores of
                scope "partition" show only these.  By default all key groups.
            refresh: How often a thread looks for newer batches: a timedelta, or an int of ms.  If
                None, only `refresh()` or a bound of a read looks for them.
            max_age: The age beyond which an answer is refused: the time since the replica last knew
                that there was no newer batch, if looking for one fails.  By default any age is
                accepted.
            timeout: The time that a read with `at_least_batch` waits if it gives no timeout itself.
            clock: The clock of processing-time TTL: "batch", the clock of the batch, or "wall".
            allow_scan: Whether `items()`, `all()`, `range()` and the like may read all key groups.
            allow_pickle: Whether pickled values may be unpickled, which may run any code.
            cache_bytes: How many bytes of decoded state the replica may hold besides the logs.

        Raises:
            UnknownStateError: There is no such state or operator.
            CorruptStateError: The checkpoint is damaged.
            SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
            StateValueError: A key cannot be a value of the key columns.
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        from pyflinklike.queryable_state.replica_source import CheckpointSource

        settings = Settings(
            states=states,
            refresh=refresh,
            max_age=max_age,
            timeout=timeout,
            clock=clock,
            allow_scan=allow_scan,
            allow_pickle=allow_pickle,
            cache_bytes=cache_bytes,
        )
        share = Share.of(keys, key_groups)
        return cls(CheckpointSource.of(spark, checkpoint, operator, share), settings)

    @classmethod
    def open_savepoint(
        cls,
        savepoint: str | os.PathLike[str],
        *,
        states: Iterable[str] | None = None,
        operator: str | None = None,
        clock: str = "batch",
        allow_scan: bool = False,
        allow_pickle: bool = False,
        cache_bytes: int = CACHE_BYTES,
    ) -> QueryableState:
        """Open states and stores of a savepoint, to read them by key, without Spark and Java.

        The state of a savepoint does not change.

            with QueryableState.open_savepoint("/savepoints/visits") as state:
                state["pages"].get("ann")

        Args:
            savepoint: The directory, or its address (such as `s3://...`).
            states: The names of the states and stores that will be asked for; by default all.
            operator: The uid of the operator; leave it out if the savepoint has one operator.
            clock: The time by which processing-time TTL expires: "batch", the time of the
                savepoint's micro-batch (without a batch nothing has expired), or "wall", the
                machine's clock.
            allow_scan: Whether `items()`, `all()`, `range()` and the like may read all key groups.
            allow_pickle: Whether values that are pickles may be unpickled, which may run any code.
            cache_bytes: The most bytes that may stay decoded.

        Raises:
            CorruptStateError: There is no savepoint at that place, or it is damaged.
            UnknownStateError: There is no such state or operator.
            DeclarationTypeError, DeclarationValueError: An argument has a wrong type or value.
        """
        settings = Settings(
            states=states,
            clock=clock,
            allow_scan=allow_scan,
            allow_pickle=allow_pickle,
            cache_bytes=cache_bytes,
        )
        source = SavepointSource(open_savepoint(savepoint), operator, settings.states)
        return cls(source, settings)

    # Following

    def refresh(self) -> bool:
        """Look for newer micro-batches, and read up to the last one.

        Returns:
            True if there was a newer one.

        Raises:
            SparkSetupError: Spark cannot read the checkpoint; reads get the present version.
            CorruptStateError: The checkpoint is damaged.
            StoreClosedError: The replica is closed.
        """
        seen, begun = self._current(), self._begun
        begin_waiting()
        with self._refreshing:
            former = self._current()
            if self._begun > begun:
                # Another thread began to look after this one asked, so its result serves both.
                if self._failure is not None:
                    raise copy.copy(self._failure) from self._failure
                return former.image is not seen.image
            self._begun += 1
            started = self._now()
            self.metrics.refreshes += 1
            self._failure = None
            try:
                image = self._newer(former.image)
                if image is None:
                    self._version = attrs.evolve(former, checked_at=started)
                else:
                    self._version = self._over(image, former, started)
            except Exception as error:
                self.metrics.failed_refreshes += 1
                self._failure = error
                raise
            return self._version.image is not seen.image

    def _newer(self, image: Image) -> Image | None:
        try:
            return self._source.after(image)
        except PyflinklikeError as error:
            # For example the query purged the batch, or began anew in the same folder.
            LOG.info("%s: all is read anew (%s)", image.where, error)
            found = self._source.latest()
            self.metrics.reopens += 1
            return found

    def _over(self, image: Image, former: Version | None, checked_at: int) -> Version:
        self.metrics.batches += 1
        self.metrics.stored_bytes = image.bytes
        if former is not None and former.image.record == image.record:
            return Version(image, former.states, checked_at)
        settings = self._settings
        groups = DecodedGroups(
            image.record,
            self._source.key_type(image.record),
            image.record.states if settings.states is None else settings.states,
            self.metrics,
            has_timers=settings.states is None,
            cache_bytes=settings.cache_bytes,
            allow_pickle=settings.allow_pickle,
            wall_clock=self._now if settings.clock == "wall" else None,
        )
        return Version(image, OpenStates(groups, self._source.route(image.record)), checked_at)

    def _follow(self) -> None:
        interval = self._settings.refresh
        assert interval is not None
        while not self._closing.wait(interval / 1000):
            try:
                self.refresh()
            except StoreClosedError:
                return
            except PyflinklikeError as error:
                LOG.warning("a replica could not be refreshed, and tries again: %s", error)
            except Exception:  # the thread must live on: reads have no other way to new batches
                LOG.exception("a replica could not be refreshed, and tries again")

    # Reading

    @property
    def timeout(self) -> int:
        """The time in ms that a read waits for a batch by default."""
        return self._settings.timeout

    def _current(self) -> Version:
        if self._closing.is_set():
            msg = "the replica is closed, got a read; open another one"
            raise StoreClosedError(msg)
        return self._version

    def _choose(
        self,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> Version:
        """Return the version that answers a read with these bounds.

        Raises:
            StaleStateError: No version is new enough within the timeout.
            DeclarationTypeError, DeclarationValueError: A bound has a wrong type or value.
        """
        age = self._settings.max_age if max_age is None else _age(max_age)
        found = self._current()
        if age is not None and self._now() - found.checked_at > age:
            found = self._no_older_than(age)
        if at_least_batch is None:
            return found
        if not is_int(at_least_batch):
            msg = f"at_least_batch takes the number of a batch, got {short_repr(at_least_batch)}"
            raise DeclarationTypeError(f"{msg}; give an int")
        if found.image.position.batch_id >= at_least_batch:
            return found
        patience = self.timeout if timeout is None else _timeout(timeout)
        return self._wait_for(at_least_batch, patience)

    def _no_older_than(self, age: int) -> Version:
        try:
            self.refresh()
        except PyflinklikeError as error:
            found = self._current()
            if self._now() - found.checked_at <= age:
                return found
            msg = (
                f"cannot tell whether {found.image.position} is the newest state, as max_age={age} "
                f"ms asks, since a refresh failed ({shown_message(error)})"
            )
            raise StaleStateError(f"{msg}; raise max_age, or retry") from error
        return self._current()

    def _wait_for(self, batch_id: int, patience: int) -> Version:
        end = self._now() + patience
        while True:
            cause = None
            try:
                self.refresh()
            except PyflinklikeError as error:
                cause = error
            found = self._current()
            if found.image.position.batch_id >= batch_id:
                return found
            left = end - self._now()
            if left <= 0:
                msg = f"an answer must be of batch {batch_id} or later, got {found.image.position}"
                raise StaleStateError(
                    f"{msg} after {patience} ms; wait longer, or see whether the query runs"
                ) from cause
            self._closing.wait(min(left, _POLL_MS) / 1000)

    @contextmanager
    def snapshot(
        self,
        *,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> Iterator[StateReader]:
        """Hold on to one version, so that all reads of the snapshot are of one micro-batch.

        Args:
            at_least_batch: The number of the micro-batch to wait for; None waits for none.
            max_age: Look for newer batches first if the last look is longer ago than this.
            timeout: The longest wait; by default the `timeout` of `open`.

        Raises:
            StaleStateError: The replica has not read that batch within the timeout.
        """
        version = self._choose(at_least_batch, max_age, timeout)

        def pick(batch_id: int | None = None, *_: Any) -> Version:
            self._current()  # raises if the replica is closed
            position = version.image.position
            if batch_id is not None and position.batch_id < batch_id:
                msg = f"a snapshot does not follow the query, got a read of batch {batch_id} at {position}"
                raise StaleStateError(f"{msg}; take another one with at_least_batch={batch_id}")
            return version

        yield StateReader(pick, pick, self._names, allow_scan=self._allow_scan)

    # Life

    def close(self) -> None:
        """Stop following, and refuse further reads; closing again does nothing."""
        self._closing.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def __enter__(self) -> QueryableState:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
