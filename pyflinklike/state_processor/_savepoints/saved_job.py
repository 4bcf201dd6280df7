# SPDX-License-Identifier: Apache-2.0
"""The job or the history in a savepoint: its sources, and how far each of them was read.

The position of a source is plain data.  It has one of these forms:

    {"splits": 2, "read": [7, null]}        7 elements of the first of two splits, all of the second
    {"left": [["/in/a", 3], ["/in/b", 0]]}  of the first split all but 3 elements are left, of the other all
    {"found": ["/in/a", "/in/b"]}           splits that were read, of a source that looks for more
    {"offset": "..."}                       the text that Spark's checkpoint has for a stream of Spark's,
                                            or that `startingOffsets` takes
    {"said": "..."}                         what the user says of it

The first two may have `"first": 4`, too: then 4 more elements were read, counted over the rest of all
splits in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["Position", "SavedHistory", "SavedJob", "SavedJobOperator", "SavedSource", "move_on"]

Position = Mapping[str, Any]


@attrs.frozen
class SavedSource:
    """A source of the job.

    Args:
        uid: The uid that the program gives, or None.
        kind: The name of the source's class.
        what: The paths, topics or columns that it reads.
        is_bounded: Whether the source ends.
        position: How far it was read; None if that is not known.
        reason: Why the position is not known; empty if it is known.
    """

    uid: str | None
    kind: str
    what: str
    is_bounded: bool
    position: Position | None = None
    reason: str = ""

    def __str__(self) -> str:
        return f"source {self.uid!r}, {self.what}" if self.uid else f"source {self.what}"

    def is_same(self, other: SavedSource) -> bool:
        """Return whether it is the same source: by the uids if both have one, else by `what`."""
        if self.uid and other.uid:
            return self.uid == other.uid
        mine = self.kind, self.what, self.is_bounded
        return mine == (other.kind, other.what, other.is_bounded)


@attrs.frozen
class SavedJobOperator:
    """An operator of the job that has state.

    Args:
        name: The name of its state: the uid, or its kind and its number among operators with state.
        uid: The uid that the program gives, or None.
        function: The name of the class of its function.
    """

    name: str
    uid: str | None
    function: str


@attrs.frozen
class SavedJob:
    """A job.

    Args:
        name: The name that the program gives to the job.
        sources: The sources of the job, in the order of the program.
        operators: The operators with state, in the order of the program.
    """

    name: str
    sources: tuple[SavedSource, ...]
    operators: tuple[SavedJobOperator, ...]

    def operator(self, name: str) -> SavedJobOperator | None:
        """Return the operator whose state has a name, or None."""
        return next((each for each in self.operators if each.name == name), None)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SavedJob:
        """Return the job that `attrs.asdict` made into these fields."""
        sources = tuple(SavedSource(**each) for each in fields["sources"])
        operators = tuple(SavedJobOperator(**each) for each in fields["operators"])
        return cls(fields["name"], sources, operators)


@attrs.frozen
class SavedHistory:
    """The batch that wrote a savepoint, with which a stream goes on.

    Args:
        run: The id of the batch.
        sources: The batch's sources, each with the position at which the stream begins.
        delay: How late records may be, in ms: the watermark is this far behind the latest time; None
            if no operator has event time.
    """

    run: str
    sources: tuple[SavedSource, ...]
    delay: int | None = None

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SavedHistory:
        """Return the history that `attrs.asdict` made into these fields."""
        sources = tuple(SavedSource(**each) for each in fields["sources"])
        return cls(fields["run"], sources, fields["delay"])


def move_on(position: Position, count: int) -> Position:
    """Return the position behind some more elements, counted over all splits in their order."""
    return {**position, "first": position.get("first", 0) + count} if count else position
