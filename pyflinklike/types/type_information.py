# SPDX-License-Identifier: Apache-2.0
"""The contract of a type.

A value has three forms.  The *user's* form is the one that Flink's Python API takes and gives.  The
*stored* form is the one that working state holds.  It is immutable: a read returns
either that very object (`is_identity`) or a fresh copy, so a user cannot change what is stored.  The
*column* form is an Arrow array, which is what gets written.

    freeze      user -> stored        checks, copies, normalises
    thaw        stored -> user        the caller's own
    to_arrow    [stored] -> column    None becomes null
    from_arrow  column -> [stored]    equal to what went in
    column_of   [user] -> column      freeze and to_arrow in one, without a call for each value

Two rules follow.  First, `freeze` refuses every value that a column cannot hold, because it can show
the user the value; the commit, which comes long after, could not.  Second, `freeze` rounds and
normalises right away (float32, NaN), so that a value reads the same before and after a restart.

A key of a map goes through `freeze_key`.  Keys that differ in Flink must not be equal in Python, and
keys that are equal in Flink must be one key.  So -0.0 becomes 0.0, and in a pickled column True, 1
and 1.0 differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic

import pyarrow as pa

from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import T_co
from pyflinklike.errors import StateValueError

Column = Any
"""A `pa.Array`; pyarrow's stubs do not know nested arrays, so type checkers get Any."""
MISFITS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""The errors that Arrow raises if a value does not fit a column."""
NO_VALUE: Final = type(None)
REMEDY: Final = "convert it, or declare another type"


class TypeInformation(WithoutJava, Generic[T_co]):
    """The type of a state's values: checks them, copies them, writes them as a column.

    For a type checker, a `TypeInformation[int]` declares values that are int in Python.  Types are
    immutable and hashable.  Two types are equal if their structure is, with field names and defaults.
    """

    __slots__ = ()
    accepts_none: ClassVar[bool] = False
    """True if None is a value of this type; inside a row None always is."""

    written: ClassVar[frozenset[type]] = frozenset()
    """Classes whose values Arrow writes to the column as they are, or refuses."""

    shown: ClassVar[str]
    """The `repr` and signature of a type without parts."""

    takes: ClassVar[str]
    """The values that it takes, for messages."""

    arrow_type: pa.DataType
    """The Arrow type of a column of stored values."""

    @property
    def is_identity(self) -> bool:
        """True if `thaw` returns each argument as it is, so that the call can be left out."""
        return True

    @property
    def adds_up(self) -> bool:
        """True if a sum of stored values is the same, whether or not each partial sum is stored."""
        return False

    @property
    def is_pickled(self) -> bool:
        """True if reading a value unpickles it or a part of it."""
        return False

    @property
    def signature(self) -> str:
        """A stable text that is equal if and only if the types are."""
        return repr(self)

    def freeze(self, value: Any) -> Any:
        """Return the stored form of a user's value.

        Raises:
            StateValueError: The value does not fit this type.
        """
        raise NotImplementedError

    def freeze_key(self, value: Any) -> Any:
        """Return the stored form of a map's key: hashable, and equal only if the keys are equal."""
        if value is None:
            raise self._misfit(value, "a map key is never None")
        return self.freeze(value)

    def thaw(self, stored: Any) -> Any:
        """Return the user's own copy of a stored value."""
        return stored

    def are_stored(self, values: Sequence[Any]) -> bool:  # noqa: ARG002
        """Return whether `freeze` would return each of these values as it is.

        The answer may be False if only `freeze` itself could find out.

        Args:
            values: At least one value, and none of them None.
        """
        return False

    def converted(self, value: Any) -> Any:
        """Return a user's value as it arrives behind the border of an operator.

        As in Flink, a FLOAT is rounded, an int that does not fit is refused, and rows get names.

        Raises:
            StateValueError: The value does not fit this type.
        """
        return self.thaw(self.freeze(value))

    def thaw_key(self, stored: Any) -> Any:
        """Return the user's own copy of a stored key."""
        return self.thaw(stored)

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write stored values as a column; None becomes null."""
        return pa.array(stored, type=self.arrow_type)

    def column_of(self, values: Sequence[Any]) -> Column:
        """Write a user's values as a column; None becomes null.

        Raises:
            StateValueError: A value does not fit this type.
        """
        try:
            column = self._write(values)
        except MISFITS:
            # Below, the error names the value, or a value that only Arrow refuses is converted.
            column = None
        if column is not None:
            return column
        return self.to_arrow([None if each is None else self.freeze(each) for each in values])

    def _write(self, values: Sequence[Any]) -> Column | None:
        """Write values if Arrow writes them as `freeze` and `to_arrow` do; None if that is not sure.

        Raises:
            ArrowException, TypeError, ValueError, OverflowError: A value may not fit.
        """
        if self.written.issuperset(map(type, values)):
            return pa.array(values, self.arrow_type)
        return None

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the stored values of a column; null becomes None."""
        values: list[Any] = column.to_pylist()
        return values

    def _takes(self) -> str:
        """Return which values this type takes, for a message."""
        return self.takes

    def _misfit(self, value: Any, remedy: str = REMEDY) -> StateValueError:
        got = f"{short_repr(value)} ({type(value).__name__})"
        return StateValueError(f"type {self!r} takes {self._takes()}, got {got}; {remedy}")

    def __repr__(self) -> str:
        return self.shown


def plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's own value, and anything else as it is."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        held = value.item()
        # NumPy makes a bare number of a time in nanoseconds, so such a time stays as it is.
        return value if isinstance(held, int) and value.dtype.kind in "mM" else held
    return value
