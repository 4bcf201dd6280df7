# SPDX-License-Identifier: Apache-2.0
"""`Savepoint` gives state as DataFrames to edit and write, or for a query to begin with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike import __version__
from pyflinklike._changelog.operator_record import OperatorIdentity, OperatorRecord
from pyflinklike._messages import short_repr
from pyflinklike._runtime.keyed_operator import describe_ttl
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, UnknownStateError
from pyflinklike.spark._plan.session import time_zone_of
from pyflinklike.spark._wire.schema import ddl_type, key_type_of
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.state_processor._checkpoints.checkpoint import (
    checkpoint_states,
    location_of,
    savepoint_location_in,
)
from pyflinklike.state_processor._checkpoints.group_job import spark_schema
from pyflinklike.state_processor._checkpoints.savepoint_frames import (
    Frames,
    frames_of,
    manifest_of,
    read_saved_frames,
    save,
)
from pyflinklike.state_processor._logs.group_reader import TimersReader
from pyflinklike.state_processor._logs.state_infos import StateInfos, describe_states
from pyflinklike.state_processor._savepoints.manifest import Manifest
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory
from pyflinklike.state_processor._spark.key_edits import Merge, merge_operators, rekey
from pyflinklike.state_processor._spark.state_edits import (
    Misfits,
    cast_values,
    each_state,
    fit_rows,
    fit_timers,
    fold_elements,
    of_descriptor,
    refuse_misfits,
    refuse_several,
    rows_of,
)
from pyflinklike.types import TypeInformation


@attrs.frozen(eq=False, repr=False)
class Savepoint(Mapping[str, DataFrame]):
    """The state of queries as DataFrames that can be edited: begin with `read` or `new`.

    A savepoint is a mapping from the names of states to DataFrames with the columns of
    `read_state` (stamps as ms, instants as structs).  It is immutable: each method returns another
    savepoint, and Spark computes no state before `write`.  Methods for states need a savepoint of
    one operator; `operator(uid)` returns one of several.

        savepoint = Savepoint.read(spark, "/checkpoints/visits")
        renamed = savepoint.rename_state("count", "visits").remove_timers("processing_time")
        renamed.write("/savepoints/visits")

    Args:
        spark: The session that reads and writes.
        operators: The record, states and timers of each operator, by uid.
        manifest: The manifest, with the batch of the savepoint.
        edited: The uid and name of each state whose rows must be checked.
        misfits: The rows for which an edit has no result.
    """

    spark: SparkSession
    operators: Mapping[str, Frames]
    manifest: Manifest
    edited: frozenset[tuple[str, str]] = frozenset()
    misfits: tuple[Misfits, ...] = ()

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        path: str | os.PathLike[str],
        *,
        batch_id: int | None = None,
    ) -> Savepoint:
        """Read the directory of a savepoint, or a checkpoint, whose query may be running.

        Args:
            spark: Any session that reaches the path.
            path: The directory of a savepoint, or the checkpointLocation of a query.
            batch_id: The micro-batch of a checkpoint; by default the last committed one.

        Raises:
            CorruptStateError: The savepoint, or an operator's record, registry or head, is damaged.
            UnknownBatchError: The batch is not, or no longer, there.
            SparkSetupError: Spark cannot read the checkpoint.
        """
        location = savepoint_location_in(spark, path)
        if location.is_savepoint():
            directory = SavepointDirectory.at(location)
            uids = directory.operators()
            found = {uid: read_saved_frames(spark, directory, uid) for uid in uids}
            return cls(spark, found, directory.manifest)
        states = checkpoint_states(spark, location_of(path, spark), None, batch_id)
        found = {each.record.identity.name: frames_of(each) for each in states}
        return cls(spark, found, manifest_of(states[0]))

    @classmethod
    def new(cls, spark: SparkSession, key: str, uid: str) -> Savepoint:
        """Make an empty savepoint, which `with_state` fills.

        Args:
            spark: The session that writes the savepoint.
            key: The key columns as DDL, such as "user string".
            uid: The uid of the operator that begins with the savepoint.

        Raises:
            DeclarationTypeError, DeclarationValueError: A column cannot be a key.
        """
        fields = ddl_type(spark.range(0), key, "key").fields  # type: ignore[attr-defined]
        zone = time_zone_of(spark)
        kind = key_type_of([each.dataType for each in fields], zone)
        columns = tuple((each.name, each.dataType.simpleString()) for each in fields)
        identity = OperatorIdentity(uid, _DEFAULT_MAX_PARALLELISM, columns, kind.signature)
        record = OperatorRecord(identity, uid, __version__, zone, None, "None", {})
        timers = spark.createDataFrame([], spark_schema(TimersReader(record, None).schema))
        return cls(spark, {uid: Frames(record, {}, timers)}, Manifest(__version__, 0, ()))

    # A mapping

    def __getitem__(self, state: str) -> DataFrame:
        """Return the rows of a state.

        Raises:
            UnknownStateError: There is no such state.
        """
        frames = self.only()
        rows_of(frames.record, state)
        return frames.states[state]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the states."""
        return iter(self.only().states)

    def __len__(self) -> int:
        """Count the states."""
        return len(self.only().states)

    @property
    def timers(self) -> DataFrame:
        """The timers: key columns, `domain`, `timestamp` in ms."""
        return self.only().timers

    def states(self) -> StateInfos:
        """List the states of all operators, as `list_states` does."""
        return StateInfos(
            info
            for number, frames in enumerate(self.operators.values())
            for info in describe_states(frames.record, number)
        )

    def __repr__(self) -> str:
        """Name the operators and their states."""
        held = {uid: sorted(frames.states) for uid, frames in self.operators.items()}
        return f"Savepoint({held})"

    def _repr_html_(self) -> str:
        batch = self.manifest.batch_id
        said = "state" if batch is None else f"state of batch {batch}"
        return f"<p>Savepoint: {said}</p>{self.states()._repr_html_()}"

    # States

    def filter_keys(self, condition: Column) -> Savepoint:
        """Return a savepoint of the keys for which a condition is true, timers included.

        State that belongs to no key stays.

        Args:
            condition: A condition on the key columns.
        """
        frames = self.only()

        def kept(name: str, frame: DataFrame) -> DataFrame:
            is_shared = rows_of(frames.record, name).declaration.per_group
            return frame if is_shared else frame.where(condition)

        timers = frames.timers.where(condition)
        return self._with(attrs.evolve(frames, states=each_state(frames, kept), timers=timers))

    def transform_state(self, state: str, transform: Callable[[DataFrame], DataFrame]) -> Savepoint:
        """Return a savepoint in which a function has changed the rows of a state.

        Args:
            state: The name of the state.
            transform: Takes the DataFrame of the state and returns one with the same columns.

        Raises:
            UnknownStateError: There is no such state.
            DeclarationTypeError, DeclarationValueError: The result does not fit the state.
        """
        changed = transform(self[state])
        if not isinstance(changed, DataFrame):
            msg = f"transform_state takes a function that returns a DataFrame, got {short_repr(changed)}"
            raise DeclarationTypeError(f"{msg}; return the changed DataFrame")
        frames = self.only()
        frame, said = fit_rows(frames.record, state, changed), frames.record.states[state]
        return self._with(frames.with_state(state, said, frame), state)

    def rename_state(self, state: str, new_name: str) -> Savepoint:
        """Return a savepoint in which a state has another name.

        Raises:
            UnknownStateError: There is no such state.
            DeclarationValueError: Another state has the new name.
        """
        frame, frames = self[state], self.only()
        if new_name in frames.states:
            msg = f"savepoint: another state has the name {new_name!r}, got it for {state!r}"
            raise DeclarationValueError(f"{msg}; remove_state() the other one first")
        said, without = frames.record.states[state], frames.without_state(state)
        return self._with(without.with_state(new_name, said, frame), new_name)

    def remove_state(self, state: str) -> Savepoint:
        """Return a savepoint without a state.

        Raises:
            UnknownStateError: There is no such state.
        """
        _, frames = self[state], self.only()
        return self._with(frames.without_state(state))

    def with_state(
        self,
        descriptor: Any,
        rows: DataFrame,
        *,
        order_by: Sequence[str] | str | None = None,
        from_elements: bool = False,
    ) -> Savepoint:
        """Return a savepoint with a state of these rows, which replaces a state of the same name.

        Args:
            descriptor: The descriptor of a state or store.
            rows: The key columns and the columns that `read_state` shows for the kind: `value`;
                `user_key`; `position`; `store_key` with the times of its entries.  With a TTL
                there may be a `stamp` (ms); entries without one are stamped when a query begins
                with them.
            order_by: The columns that order the elements of a list without a `position`, or the
                elements to fold.
            from_elements: For reducing and aggregating state: True if `value` is an element, and a
                key may have many rows.  The descriptor's function then folds the elements to the
                value or the accumulator, and the latest `stamp` of a key counts.

        Raises:
            DeclarationTypeError, DeclarationValueError: Columns are missing or have other types.
        """
        frames, said, name = self.only(), of_descriptor(descriptor), descriptor.name
        record = frames.with_state(name, said, rows).record
        if from_elements:
            rows, order_by = fold_elements(record, descriptor, rows, order_by), None
        frame = fit_rows(record, name, rows, order_by)
        return self._with(frames.with_state(name, said, frame), name)

    def with_ttl(self, state: str, ttl: StateTtlConfig, *, stamp: int | None = None) -> Savepoint:
        """Return a savepoint in which a state has another TTL.

        If the former TTL has another clock, its stamps mean nothing to the new one, so all entries
        count as entries without a stamp.

        Args:
            state: The name of the state.
            ttl: The TTL that a query will declare for the state.
            stamp: The stamp in ms for entries without a stamp; by default the time at which a query
                begins with them.

        Raises:
            UnknownStateError: There is no such state.
        """
        frame, frames = self[state], self.only()
        former = frames.record.states[state].get("ttl")
        said = {**frames.record.states[state], "ttl": describe_ttl(ttl)}
        if former is not None and former["time"] != said["ttl"]["time"]:
            frame = frame.withColumn("stamp", F.lit(None).cast("long"))
        if stamp is not None:
            given = F.lit(stamp).cast("long")
            has_one = "stamp" in frame.columns
            frame = frame.withColumn("stamp", F.coalesce("stamp", given) if has_one else given)
        record = frames.with_state(state, said, frame).record
        return self._with(frames.with_state(state, said, fit_rows(record, state, frame)))

    def cast_state(
        self, state: str, type_info: TypeInformation, *, lossy: bool = False
    ) -> Savepoint:
        """Return a savepoint in which the values of a state have another type.

        A type change that [schema evolution](../how-to/migrate-state.md#change-a-type) allows needs
        no savepoint.

        Args:
            state: The name of the state.
            type_info: The new type of the values, of a list's elements, or of a map's values.
            lossy: Whether values may lose digits, and rows may lose fields.  If not, the new type must
                hold every value unchanged: `INT` holds the 3 of a `LONG`, but not the 3.5 of a
                `DOUBLE`.  A value beyond the range of the new type is refused in both cases.

        Raises:
            UnknownStateError: There is no such state.
            DeclarationTypeError: A type is pickled, or Spark has no such cast.
        """
        frames, misfits = cast_values(self.only(), state, type_info, lossy=lossy)
        return self._with(frames, state, misfits=[misfits])

    # Timers

    def with_timers(self, timers: DataFrame) -> Savepoint:
        """Return a savepoint with these timers in place of all others.

        Args:
            timers: The key columns, `domain` ("event_time" or "processing_time"), `timestamp` (ms).

        Raises:
            DeclarationTypeError, DeclarationValueError: Columns are missing or have other types.
        """
        frames = self.only()
        return self._with(attrs.evolve(frames, timers=fit_timers(frames.record, timers)))

    def remove_timers(self, domain: str | None = None) -> Savepoint:
        """Return a savepoint without timers.

        Args:
            domain: The domain whose timers are removed, "event_time" or "processing_time"; by
                default both.

        Raises:
            DeclarationValueError: `domain` is neither.
        """
        if domain not in (None, "event_time", "processing_time"):
            msg = f'domain is "event_time" or "processing_time", got {short_repr(domain)}'
            raise DeclarationValueError(f"{msg}; leave it out for both")
        frames = self.only()
        kept = frames.timers.where(F.lit(False) if domain is None else F.col("domain") != domain)
        return self._with(attrs.evolve(frames, timers=kept))

    # Keys

    def merge(self, other: Savepoint, *, on_conflict: str = "error") -> Savepoint:
        """Return a savepoint with the entries and timers of another one, too.

        Args:
            other: A savepoint of one operator with the same key columns.
            on_conflict: Which side's entry stays if both have it, "left" or "right"; a list stays
                as a whole.  "error" refuses such an entry when the savepoint is written.

        Raises:
            DeclarationValueError: The key columns or the declarations of a state differ, a store has
                the scope "partition" but the `max_parallelism` of both differs, or `on_conflict` is
                another word.
        """
        frames, misfits = merge_operators(self.only(), other.only(), on_conflict)
        return self._with(frames, *frames.states, misfits=(*other.misfits, *misfits))

    def rekey(
        self,
        key: str,
        mapping: DataFrame,
        *,
        merge: Mapping[str, Merge] | None = None,
        drop: bool = False,
    ) -> Savepoint:
        """Return a savepoint with state and timers under other key columns.

        Args:
            key: The new key columns as DDL, such as "account string".
            mapping: A DataFrame of the old and the new key columns, with the new key of each old
                key.
            merge: For each state by name, how the values of several old keys become one.  "sum",
                "min" and "max" suit any state; "newest" and "oldest" need a TTL or a timestamped
                store; "concat" is for lists and keeps the order of the old keys.  A function folds
                two values: an `AggregateFunction`, whose `merge` is called, a `ReduceFunction`, or
                any callable; the state's own function is one.
            drop: Whether to drop the state and timers of keys that the mapping does not have; by
                default such keys are refused.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong, or a store belongs
                to no key.
        """
        if not isinstance(mapping, DataFrame):
            msg = f"rekey takes a DataFrame of old and new key columns, got {short_repr(mapping)}"
            raise DeclarationTypeError(f"{msg}; make one with spark.createDataFrame()")
        frames, misfits = rekey(self.only(), key, mapping, merge or {}, drop=drop)
        return self._with(frames, *frames.states, misfits=misfits)

    def split(self, condition: Column, uid: str) -> Savepoint:
        """Return a savepoint in which keys that meet a condition have another operator.

        Each key is in one of the two operators.  State that belongs to no key, such as broadcast
        state, is in both.

        Args:
            condition: A condition on the key columns.
            uid: The uid of the new operator.

        Raises:
            DeclarationValueError: The uid is taken, or a store of scope "partition" would have to be
                divided.
        """
        frames = self.only()
        self._refuse_partition_scope(frames)
        if uid in self.operators:
            msg = f"split makes an operator of another uid, got {uid!r} for both"
            raise DeclarationValueError(f"{msg}; choose another one")
        chosen = F.coalesce(condition, F.lit(False))
        ours, theirs = self.filter_keys(~chosen), self.filter_keys(chosen)
        return ours.with_operator(theirs.rename_operator(frames.record.identity.name, uid))

    def _refuse_partition_scope(self, frames: Frames) -> None:
        for name in frames.states:
            declaration = rows_of(frames.record, name).declaration
            if declaration.per_group and not declaration.is_replicated:
                msg = f'split divides state by key, got the store {name!r} of scope "partition"'
                raise DeclarationValueError(f"{msg}, which has no keys; remove_state() it first")

    # Operators

    def operator(self, uid: str) -> Savepoint:
        """Return the savepoint of one operator.

        Raises:
            UnknownStateError: There is no operator with this uid.
        """
        if uid not in self.operators:
            msg = f"savepoint: its operators are {list(self.operators)}, got {uid!r}"
            raise UnknownStateError(f"{msg}; give one of these")
        return attrs.evolve(self, operators={uid: self.operators[uid]})

    def with_operator(self, savepoint: Savepoint) -> Savepoint:
        """Return a savepoint with the operators of another one, too; they replace equal uids."""
        return attrs.evolve(
            self,
            operators={**self.operators, **savepoint.operators},
            edited=self.edited | savepoint.edited,
            misfits=(*self.misfits, *savepoint.misfits),
        )

    def remove_operator(self, uid: str) -> Savepoint:
        """Return a savepoint without an operator.

        Raises:
            UnknownStateError: There is no operator with this uid.
        """
        self.operator(uid)
        rest = {each: frames for each, frames in self.operators.items() if each != uid}
        return attrs.evolve(self, operators=rest)

    def rename_operator(self, uid: str, new_uid: str) -> Savepoint:
        """Return a savepoint in which an operator has another uid.

        Raises:
            UnknownStateError: There is no operator with this uid.
            DeclarationValueError: Another operator has the new uid.
        """
        frames = self.operator(uid).operators[uid]
        if new_uid in self.operators:
            msg = f"savepoint: another operator has the uid {new_uid!r}, got it for {uid!r}"
            raise DeclarationValueError(f"{msg}; remove_operator() the other one first")
        identity = attrs.evolve(frames.record.identity, name=new_uid)
        renamed = attrs.evolve(frames, record=attrs.evolve(frames.record, identity=identity))
        edited = frozenset((new_uid if each == uid else each, name) for each, name in self.edited)
        rest = self.remove_operator(uid).operators
        return attrs.evolve(self, operators={**rest, new_uid: renamed}, edited=edited)

    # Writing

    def write(self, path: str | os.PathLike[str], *, mode: str = "error") -> None:
        """Write the savepoint as a directory, for `process(..., from_savepoint=path)` and any tool.

        Args:
            path: The directory to write; never in a checkpoint.
            mode: "error", or "overwrite" to replace a savepoint that is there.

        Raises:
            DeclarationValueError: The mode does not allow replacing what is at the path.
            StateValueError: A value does not fit its type, an entry has several rows, or an edit has
                no result for a value or key.
        """
        self.check()
        save(
            savepoint_location_in(self.spark, path),
            list(self.operators.values()),
            self.manifest,
            mode,
        )

    def check(self) -> None:
        """Check that each value fits, each entry has one row, and each edit has a result.

        The check runs Spark jobs.

        Raises:
            StateValueError: A value does not fit its type, an entry has several rows, or an edit has
                no result for a value or key.
        """
        for each in self.misfits:
            each.refuse()
        for uid, name in sorted(self.edited):
            frames = self.operators.get(uid)
            if frames is not None and name in frames.states:
                rows = rows_of(frames.record, name)
                refuse_misfits(frames.states[name], rows)
                refuse_several(frames.states[name], rows)

    def only(self) -> Frames:
        """Return the only operator.

        Raises:
            DeclarationValueError: There is not exactly one operator.
        """
        if len(self.operators) != 1:
            msg = f"this needs a savepoint of one operator, got operators {list(self.operators)}"
            raise DeclarationValueError(f"{msg}; choose one with operator(uid)")
        return next(iter(self.operators.values()))

    def _with(self, frames: Frames, *edited: str, misfits: Iterable[Misfits] = ()) -> Savepoint:
        uid = frames.record.identity.name
        return attrs.evolve(
            self,
            operators={uid: frames},
            edited=self.edited | {(uid, name) for name in edited},
            misfits=(*self.misfits, *misfits),
        )


# A query that begins with the savepoint may have another number of key groups.
_DEFAULT_MAX_PARALLELISM = 128
