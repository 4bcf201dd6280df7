# SPDX-License-Identifier: Apache-2.0
"""The operators of a savepoint: how they are read, made, named and written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TypeVar

import attrs
from pyspark.sql import DataFrame, SparkSession

from pyflinklike import __version__
from pyflinklike.errors import DeclarationValueError, UnknownStateError
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.described import StateInfos, described
from pyflinklike.replay.group import TimersReader
from pyflinklike.savepoints.directory import SavepointDirectory
from pyflinklike.savepoints.files import place_of
from pyflinklike.savepoints.manifest import MANIFEST, Manifest
from pyflinklike.spark.reading.checkpoint import checkpoint_states, location_of
from pyflinklike.spark.reading.jobs import spark_schema
from pyflinklike.spark.setup.settings import time_zone_of
from pyflinklike.spark.wire.schema import ddl_type, key_type_of
from pyflinklike.spark.writing.edits import rows_of
from pyflinklike.spark.writing.misfits import Misfits
from pyflinklike.spark.writing.refusing import refuse_misfits, refuse_several
from pyflinklike.spark.writing.saved import saved_frames
from pyflinklike.spark.writing.saving import Frames, save
from pyflinklike.spark.writing.taking import frames_of, manifest_of

__all__ = ["HeldState"]

S = TypeVar("S", bound="HeldState")

# A query that begins with the savepoint may have another number of key groups.
_DEFAULT_MAX_PARALLELISM = 128


@attrs.frozen(eq=False, repr=False)
class HeldState(Mapping[str, DataFrame]):
    """The operators of a savepoint and their states; `Savepoint` adds the verbs that edit them.

    Args:
        spark: The session.
        operators: The record, states and timers of each operator, by uid.
        manifest: The manifest, which tells the batch of the savepoint.
        edited: The uid and name of each state whose rows must be checked.
        misfits: The rows for which a verb has no answer.
    """

    spark: SparkSession
    operators: Mapping[str, Frames]
    manifest: Manifest
    edited: frozenset[tuple[str, str]] = frozenset()
    misfits: tuple[Misfits, ...] = ()

    @classmethod
    def read(
        cls: type[S],
        spark: SparkSession,
        path: str | os.PathLike[str],
        *,
        batch_id: int | None = None,
    ) -> S:
        """Read the directory of a savepoint, or a checkpoint, whose query may be running.

        Args:
            spark: Any session that reaches the path.
            path: The directory of a savepoint, or the checkpointLocation of a query.
            batch_id: The micro-batch of a checkpoint; by default the last committed one.

        Raises:
            CorruptStateError: The savepoint, or an operator's record, roll or head, is damaged.
            UnknownBatchError: The batch is not, or no longer, there.
            HostError: Spark cannot read the checkpoint.
        """
        place = place_of(path)
        if place.exists(MANIFEST):
            directory = SavepointDirectory(place, place.manifest())
            uids = directory.operators()
            found = {uid: saved_frames(spark, directory, uid) for uid in uids}
            return cls(spark, found, directory.manifest)
        states = checkpoint_states(spark, location_of(path), None, batch_id)
        found = {each.record.identity.name: frames_of(each) for each in states}
        return cls(spark, found, manifest_of(states[0]))

    @classmethod
    def new(cls: type[S], spark: SparkSession, key: str, uid: str) -> S:
        """Make an empty savepoint, which `with_state` fills.

        Args:
            spark: The session.
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

    def _repr_html_(self) -> str:
        batch = self.manifest.batch_id
        said = "state" if batch is None else f"state of batch {batch}"
        infos = [
            info
            for number, frames in enumerate(self.operators.values())
            for info in described(frames.record, number)
            if info.name in frames.states
        ]
        return f"<p>Savepoint: {said}</p>{StateInfos(infos)._repr_html_()}"

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

    def __repr__(self) -> str:
        """Name the operators and their states."""
        held = {uid: sorted(frames.states) for uid, frames in self.operators.items()}
        return f"Savepoint({held})"

    @property
    def timers(self) -> DataFrame:
        """The timers: key columns, `domain`, `timestamp` in ms."""
        return self.only().timers

    def states(self) -> StateInfos:
        """List the states of all operators, as `list_states` does."""
        return StateInfos(
            info
            for number, frames in enumerate(self.operators.values())
            for info in described(frames.record, number)
        )

    # Operators

    def operator(self: S, uid: str) -> S:
        """Return the savepoint of one operator.

        Raises:
            UnknownStateError: There is no operator with this uid.
        """
        if uid not in self.operators:
            msg = f"savepoint: its operators are {list(self.operators)}, got {uid!r}"
            raise UnknownStateError(f"{msg}; give one of these")
        return attrs.evolve(self, operators={uid: self.operators[uid]})

    def with_operator(self: S, savepoint: S) -> S:
        """Return a savepoint with the operators of another one, too; they replace equal uids."""
        return attrs.evolve(
            self,
            operators={**self.operators, **savepoint.operators},
            edited=self.edited | savepoint.edited,
            misfits=(*self.misfits, *savepoint.misfits),
        )

    def remove_operator(self: S, uid: str) -> S:
        """Return a savepoint without an operator.

        Raises:
            UnknownStateError: There is no operator with this uid.
        """
        self.operator(uid)
        rest = {each: frames for each, frames in self.operators.items() if each != uid}
        return attrs.evolve(self, operators=rest)

    def rename_operator(self: S, uid: str, new_uid: str) -> S:
        """Return a savepoint in which an operator has another uid.

        Raises:
            UnknownStateError: There is no operator with this uid.
            DeclarationValueError: Another operator has the new uid.
        """
        frames = self.operator(uid).operators[uid]
        if new_uid in self.operators:
            msg = f"savepoint: uids differ, got {new_uid!r} for {uid!r}"
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
            StateValueError: A value does not fit its type, an entry has several rows, or a verb has
                no answer for a value or key.
        """
        self.check()
        save(place_of(path), list(self.operators.values()), self.manifest, mode)

    def check(self) -> None:
        """Check that each value fits, each entry has one row, and each verb an answer.

        The check runs jobs of Spark.

        Raises:
            StateValueError: A value does not fit its type, an entry has several rows, or a verb has
                no answer for a value or key.
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
            DeclarationValueError: There are several operators, or none.
        """
        if len(self.operators) != 1:
            msg = f"states are of one operator, got a savepoint of {list(self.operators)}"
            raise DeclarationValueError(f"{msg}; choose one with operator(uid)")
        return next(iter(self.operators.values()))
