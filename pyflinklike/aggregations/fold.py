# SPDX-License-Identifier: Apache-2.0
"""The fold of all elements of a key into one, and the reduce functions by one field.

On a stream, Flink's `KeyedStream.reduce` emits the fold so far for every element.  In batch mode it
emits only the last fold of each key, at the end of the input.  `running` chooses between the two.

`Sum`, `Min` and `Max` fold one field and take all other fields from the first element, as in
Flink.  `MinBy` and `MaxBy` keep a whole element; if two are equal in the field, the earlier one.

An element may be a `Row`, a tuple, a list, or a plain value.  A position names a field; in a `Row`
a name does, too.  A plain value only has the position 0.  PyFlink changes an element in place; here
the fold makes a new element.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, repeat
from typing import Any, ClassVar, NoReturn

import attrs

from pyflinklike._checks import is_int
from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._messages import own_state, short_repr
from pyflinklike.errors import DeclarationTypeError, StateValueError
from pyflinklike.functions.contexts import RuntimeContext
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.state.descriptors import ValueStateDescriptor
from pyflinklike.state.fold_functions import ReduceFunction, as_reduce_function
from pyflinklike.state.keyed_states import field_of_fold
from pyflinklike.state.table import Setting, TableSpec
from pyflinklike.types import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from pyflinklike.types.basic_types import (
    DoubleTypeInfo,
    IntegralTypeInfo,
    StringTypeInfo,
)

# PyFlink's name of this state ends in a random uuid, so no job could find its state at a restart.
_STATE = own_state("_reduce_state", "the fold of a key")


class Fold(KeyedProcessFunction):
    """Folds the elements of each key, as `KeyedStream.reduce` of PyFlink does.

    The first element of a key is the key's first fold, unchanged.  The function may have `open`,
    `close` and keyed state.

    Args:
        function: A `ReduceFunction`, such as `Sum("amount")`, or a callable of two elements.
        type_info: The type of the elements; by default anything that pickles.
        running: Whether each element emits the fold so far.  Otherwise each key emits its fold
            once, when the watermark comes to `MAX_WATERMARK`: at the end of the input.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
    """

    def __init__(
        self,
        function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type_info: TypeInformation | None = None,
        *,
        running: bool = True,
    ) -> None:
        self._function = as_reduce_function(function)
        if not isinstance(running, bool):
            msg = f"running must be True or False, got {short_repr(running)}"
            raise DeclarationTypeError(msg)
        self._running = running
        type_info = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_info
        self._descriptor = _FoldDescriptor(_STATE, type_info, self._function, running=running)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function, and obtain the state."""
        self._function.open(runtime_context)
        self._fold = runtime_context.get_state(self._descriptor)

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """Fold one element in."""
        known = self._fold.value()
        if known is not None:
            value = self._function.reduce(known, value)
        elif not self._running:
            ctx.timer_service().register_event_time_timer(MAX_WATERMARK)
        if value is None:
            msg = (
                "an element and the fold of two are never None, got None for key "
                f"{short_repr(ctx.get_current_key())}; filter such elements out, and check that the "
                "function returns its result"
            )
            raise StateValueError(msg)
        self._fold.update(value)
        return (value,) if self._running else None

    def on_timer(
        self,
        timestamp: int,  # noqa: ARG002
        ctx: KeyedProcessFunction.OnTimerContext,  # noqa: ARG002
    ) -> Iterator[Any]:
        """Emit the fold at the end of the input, and clear it."""
        yield self._fold.value()
        self._fold.clear()


class _FoldDescriptor(ValueStateDescriptor[Any]):
    """Declares the value of a fold and its function, so that a maximum cannot take a sum's state.

    Args:
        name: The name of the state.
        type_info: The type of the elements.
        function: The function that folds; all functions of users count as the same one.
        running: Whether each element emits the fold.
    """

    def __init__(
        self,
        name: str,
        type_info: TypeInformation,
        function: ReduceFunction[Any],
        *,
        running: bool,
    ) -> None:
        super().__init__(name, type_info)
        # The kind is a class variable of other descriptors, but here it differs by instance.
        vars(self)["kind"] = function.fixed() or "reduce"
        self._field = field_of_fold(function, type_info)
        # A restart must not change this: known keys would lack the timer for the end of the input,
        # or would have it although they have emitted all their folds.
        self._gives_out = Setting(
            "when a key gives out its fold",
            "with each element" if running else "at the end of the input",
            remedy=f"pass running={not running}, or begin a new checkpoint",
        )

    def spec(self) -> TableSpec:
        """Return what the backend and the log need to know."""
        own = super().spec()
        return attrs.evolve(own, settings=(*own.settings, self._gives_out, *self._field))


def _check_position(_: Any, __: attrs.Attribute[Any], position: Any) -> None:
    if not is_int(position) and not isinstance(position, str):
        msg = (
            "The field position must be of int or str type to locate the value to calculate for "
            f"min, max, min_by, max_by and sum, got {short_repr(position)}; give a number from 0, or "
            "the name of a field"
        )
        raise DeclarationTypeError(msg)


def _has_fields(value: Any) -> bool:
    """Return whether a value is a row, tuple or list."""
    is_plain = isinstance(value, (tuple, list))
    return is_plain or (isinstance(value, Sequence) and not isinstance(value, (str, bytes)))


@attrs.frozen
class FieldFold(ReduceFunction[Any]):
    """A fold by one field.

    Args:
        position: The position of the field from 0, or its name.

    Raises:
        DeclarationTypeError: The position is neither an int nor a str.
    """

    what: ClassVar[str]
    """The name of the fold in PyFlink."""

    position: int | str = attrs.field(default=0, validator=_check_position)

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Fold an element into the fold so far.

        Raises:
            StateValueError: One of the two has no such field.
        """
        return self._fold(value1, self._field(value1), value2, self._field(value2))

    def fixed(self) -> str:
        """Return the name of the fold and its field, which its state is checked against."""
        return f"{self.what}({self.position!r})"

    def make_stored_fold(self, type_info: TypeInformation) -> Callable[[Sequence[Any]], Any] | None:
        """Return a fold of many elements, if all their fields are stored unchanged; else None."""
        # By the exact class: a class that a user derives may fold in another way.
        fold = _STORED_FOLDS.get(type(self))
        if fold is None or not type_info.is_identity:
            return None
        at: int | None = None
        kind = type_info
        if isinstance(type_info, TupleTypeInfo):
            at = self._position_in(type_info)
            if at is None:
                return None
            kind = type_info.field_types[at]
        elif self.position != 0 or not isinstance(type_info, _PLAIN):
            return None
        if fold is _sum and not kind.adds_up:
            return None
        return partial(fold, self, kind, at)

    def folded_field(self, names: Sequence[str]) -> str | None:
        """Return the name of the field at the position; None without such a field."""
        at = self.position
        return names[at] if isinstance(at, int) and -len(names) <= at < len(names) else None

    def _position_in(self, type_info: TupleTypeInfo) -> int | None:
        """Return the position of the field in tuples or rows; None if they have no such field."""
        at, count = self.position, len(type_info.field_types)
        if isinstance(at, str):
            names = type_info.field_names if isinstance(type_info, RowTypeInfo) else ()
            return names.index(at) if at in names else None
        return at if -count <= at < count else None

    @abstractmethod
    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:
        """Fold two elements; the field of each follows it in the arguments."""

    def _field(self, value: Any) -> Any:
        if _has_fields(value):
            try:
                at: Any = self.position  # a `Row` also takes names
                return value[at]
            except (IndexError, KeyError, TypeError):
                self._refuse(value, "has no such field; give the position of one that it has")
        if self.position != 0:
            self._refuse(value, "is a basic type, which only has the 0th field; give position 0")
        return value

    def _refuse(self, value: Any, rule: str) -> NoReturn:
        msg = f"{self.what}({self.position!r}): {short_repr(value)} {rule}, or a Row with names"
        raise StateValueError(msg)

    def _with(self, value: Any, field: Any) -> Any:
        """Make an element with another value in the field."""
        if not _has_fields(value):
            return field
        fields = list(value)
        names: Any = getattr(value, "_fields", ())
        at: Any = names.index(self.position) if isinstance(self.position, str) else self.position
        fields[at] = field
        if isinstance(value, list):
            return fields
        make = getattr(value, "_make", tuple)
        return make(fields)


@attrs.frozen
class Sum(FieldFold):
    """The sum of a field; the other fields are the first element's."""

    what = "sum"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:  # noqa: ARG002
        return self._with(first, known + added)


@attrs.frozen
class Min(FieldFold):
    """The least value of a field; the other fields are the first element's."""

    what = "min"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:  # noqa: ARG002
        return self._with(first, added) if added < known else first


@attrs.frozen
class Max(FieldFold):
    """The greatest value of a field; the other fields are the first element's."""

    what = "max"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:  # noqa: ARG002
        return self._with(first, added) if added > known else first


@attrs.frozen
class MinBy(FieldFold):
    """The element with the least value of a field; the earliest one if several are equal."""

    what = "min_by"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:
        return second if added < known else first


@attrs.frozen
class MaxBy(FieldFold):
    """The element with the greatest value of a field; the earliest one if several are equal."""

    what = "max_by"

    def _fold(self, first: Any, known: Any, second: Any, added: Any) -> Any:
        return second if added > known else first


# Folds of many elements of a window at once.  They loop over the field alone, in C, while `reduce`
# makes a row for each element.  The built-in `min` and `max` compare as `Min` and `Max` do, and
# also keep the first one of equal values.

_PLAIN = (IntegralTypeInfo, DoubleTypeInfo, StringTypeInfo)
"""Types of elements without fields that can be folded at once."""


def _fields_at(elements: Sequence[Any], at: int | None) -> list[Any]:
    return list(elements) if at is None else list(map(tuple.__getitem__, elements, repeat(at)))


def _sum(fold: FieldFold, kind: TypeInformation, at: int | None, elements: Sequence[Any]) -> Any:
    # Not the built-in `sum`: from Python 3.12 on, it adds floats more exactly than `+` does.
    totals = list(accumulate(_fields_at(elements, at)))
    # One by one, each total would be stored, and refused if it did not fit; so check the extremes.
    kind.freeze(min(totals))
    kind.freeze(max(totals))
    return fold._with(elements[0], totals[-1])


def _min(fold: FieldFold, _: TypeInformation, at: int | None, elements: Sequence[Any]) -> Any:
    return fold._with(elements[0], min(_fields_at(elements, at)))


def _max(fold: FieldFold, _: TypeInformation, at: int | None, elements: Sequence[Any]) -> Any:
    return fold._with(elements[0], max(_fields_at(elements, at)))


def _min_by(_: FieldFold, __: TypeInformation, at: int | None, elements: Sequence[Any]) -> Any:
    fields = _fields_at(elements, at)
    return elements[fields.index(min(fields))]


def _max_by(_: FieldFold, __: TypeInformation, at: int | None, elements: Sequence[Any]) -> Any:
    fields = _fields_at(elements, at)
    return elements[fields.index(max(fields))]


_STORED_FOLDS: dict[type, Callable[..., Any]] = {
    Sum: _sum,
    Min: _min,
    Max: _max,
    MinBy: _min_by,
    MaxBy: _max_by,
}
