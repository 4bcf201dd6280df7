# SPDX-License-Identifier: Apache-2.0
"""Whose state a checkpoint holds: what may not change while a query goes on from it.

State is found by operator, key group and key.  A program with another operator in this place,
another number of key groups, or keys of other columns would look in the wrong place and start
from nothing without an error.  So each of these is stored with the state, and compared.
"""

from __future__ import annotations

import json

import attrs

from pyflinklike.errors import CorruptStateError, IncompatibleStateError

__all__ = ["OperatorIdentity"]

_SAVEPOINT = "begin a new checkpoint with from_savepoint=read_savepoint(spark, <this checkpoint>)"
_ALIKE = {"tinyint": "int", "smallint": "int"}
"""Types that Spark hashes like another type, and that make the same keys."""


@attrs.frozen
class OperatorIdentity:
    """The ties of an operator to its state.

    Args:
        name: Its uid, or where none was given the name of the function's class.
        max_parallelism: The number of key groups.
        key_columns: Names and types, as the host calls them, of the columns that make the key;
            none where a selector makes the keys.
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
            CorruptStateError: The text is none.
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
                f"operator {self.name!r}: its place in the query is fixed by the checkpoint, got "
                f"the state of operator {stored.name!r} there; put the operators back into their "
                f"order, pass uid={stored.name!r} if it is the same one by another name, or begin "
                "a new checkpoint with from_savepoint=read_savepoint(spark, <this checkpoint>, "
                "operator_id=<its number>)"
            )
        if self.max_parallelism != stored.max_parallelism:
            raise self._refused(
                "max_parallelism is",
                str(stored.max_parallelism),
                str(self.max_parallelism),
                f"pass max_parallelism={stored.max_parallelism}, or {_SAVEPOINT}",
            )
        self._check_keys(stored)

    def _check_keys(self, stored: OperatorIdentity) -> None:
        if _compared(self.key_columns) != _compared(stored.key_columns):
            raise self._refused(
                "the key columns are",
                _described(stored.key_columns),
                _described(self.key_columns),
                f"key by the former{self._other_way(stored)}",
            )
        if self.key != stored.key:
            raise self._refused(
                "the type of the keys is",
                stored.key,
                self.key,
                "go on with the version of pyflinklike that wrote it",
            )

    def _other_way(self, stored: OperatorIdentity) -> str:
        if [name for name, _ in self.key_columns] == [name for name, _ in stored.key_columns]:
            return f", or {_SAVEPOINT}, which takes keys that are values of both types"
        # A savepoint has keys without names: in another order they would be other keys.
        return " (rename or cast before key_by), or begin a new checkpoint without this state"

    def _refused(self, what: str, former: str, got: str, remedy: str) -> IncompatibleStateError:
        return IncompatibleStateError(
            f"operator {self.name!r}: {what} fixed by its checkpoint at {former}, got {got}; {remedy}"
        )


def _compared(columns: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [(name, _ALIKE.get(kind, kind)) for name, kind in columns]


def _described(columns: tuple[tuple[str, str], ...]) -> str:
    return f"({', '.join(f'{name} {kind}' for name, kind in columns)})"
