# SPDX-License-Identifier: Apache-2.0
"""Applies upserts by key: optional values in, a differential collection out.

Most of the rules are Materialize's:

1. A value is the record of its key from now on; None deletes it.  The sender need not know the
   record before: the function retracts it.
2. At any time a key has at most one record: the sum of the diffs of a (key, value) is 0 or 1.  A
   row with diff -1 has exactly the value that a row with diff +1 had before.
3. The upsert with the highest order key of its key wins, in whatever order and batches upserts
   come.  An upsert that is not higher than the known one is stale and dropped; so is a record that
   is delivered twice.  Without order keys the later arrival wins.
4. A deletion leaves a tombstone with its order key, so that an older value that comes late does not
   bring the record back.  The tombstone expires by TTL (in Materialize it never does); a value that
   comes after that counts as new.
5. A deletion of a key without a record, and a stale upsert, yield nothing.  The same value under a
   higher order key is yielded as an update.
6. An error is a value: it replaces the record of its key, and the next value or deletion of that
   key replaces the error.  An error whose order key is unknown takes the order key of the record
   that it replaces.

The state is one `ValueState` with the record and its order key and, if there are order keys, one
with tombstones.

An element is a `Row`, a mapping, or an object with attributes.  If the value is read from a field,
two more fields of the events of `decode_debezium` are read:

* `error`: if the value is None and this is not, the element is an error and not a deletion.
* `unavailable`: the names of columns that the change did not touch and that the event lacks, as
  Postgres does with large values; their values are taken from the row before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from pyflinklike._checks import check_choice
from pyflinklike._clock import DurationLike
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    NullKeyError,
    OrderKeyError,
    StateValueError,
    UpsertError,
    ValueDecodeError,
)
from pyflinklike.functions.contexts import RuntimeContext
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.state.descriptors import ValueStateDescriptor
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.types import RowTypeInfo, TypeInformation, Types, row
from pyflinklike.types.row import Row, field_of, row_class
from pyflinklike.upsert.value_codec import decode_value, encode_value, error_of, text_of
from pyflinklike.views.order_keys import check_order, is_newer

ON_ERROR: Final = ("raise", "inline", "side_output", "drop")
"""The possible treatments of an error."""

# An order key is stored as bytes, so that one state holds order keys of any type.
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_STATE_FIELDS = ("order", "value", "error")
_STATE_ROW = row_class(_STATE_FIELDS)
_FIELDS = ("key", "op", "value", "diff")
_ERROR_FIELDS = ("key", "error", "element")
_ERROR_ROW = row_class(_ERROR_FIELDS)

_NULL_KEY = (
    "record with NULL key in UPSERT source; to retract this error, "
    "produce a record upstream with a NULL key and NULL value"
)


class UpsertFunction(KeyedProcessFunction):
    """Applies upserts, and yields the changes.

    It yields `Row`s of `key`, `op` ("insert", "update_before", "update_after", "delete"), `value`
    and `diff` (+1 or -1), and with `on_error="inline"` of `error`: None, or the text of the error
    in place of a value.  In "update_before" and "delete" the value is the old one.

    Example:
        ```python
        function = UpsertFunction(value="name", value_type=Types.STRING())
        with KeyedProcessHarness(function, key_selector=lambda row: row.id) as harness:
            (change,) = harness.process_element(Row(id=1, name="Ann"))
            assert (change.op, change.value) == ("insert", "Ann")
        ```

    Metrics: `stale_upserts` and `upsert_errors`, two counters.

    Args:
        value: The name of the field with the value, or a function of the element.  A value of None
            deletes.  A function may raise or return an `UpsertError`.  With a name, the fields
            `error` and `unavailable` are read, too, as `decode_debezium` makes them.
        order_key: The name of the field with the order key, or a function of the element; None
            orders by arrival.  An order key is a number, text, date or time, or a tuple of these.
        value_type: The type of the values, which is also the type of the output's `value`.
        tombstone_ttl: How long after a deletion (in processing time) an older value is recognised
            as stale; None keeps tombstones for ever.  Without order keys it has no effect.
        on_error: "inline" yields the error as a value of its key, "side_output" yields a `Row` of
            `key`, `error` and `element` (as text) to `error_tag`, "drop" only counts it, and
            "raise" raises it.  With the last three the record stays as it was.
        error_tag: The side output for errors; `on_error="side_output"` needs it.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
    """

    def __init__(
        self,
        *,
        value: str | Callable[[Any], Any],
        order_key: str | Callable[[Any], Any] | None = None,
        value_type: TypeInformation,
        tombstone_ttl: DurationLike | None = timedelta(days=7),
        on_error: str = "inline",
        error_tag: OutputTag | None = None,
    ) -> None:
        _check_selector("value", value)
        if order_key is not None:
            _check_selector("order_key", order_key)
        if not isinstance(value_type, TypeInformation):
            msg = f"value_type must be a TypeInformation, got {short_repr(value_type)}; use Types.ROW_NAMED()"
            raise DeclarationTypeError(msg)
        _check_errors(on_error, error_tag)
        self._reader = ElementReader(value, order_key)
        self._value_type = value_type
        self._ttl = (
            None if tombstone_ttl is None else StateTtlConfig.new_builder(tombstone_ttl).build()
        )
        self._on_error = on_error
        self._error_tag = error_tag
        self._fields = (*_FIELDS, "error") if on_error == "inline" else _FIELDS

    def output_type(self, key_type: TypeInformation) -> RowTypeInfo:
        """Return the type of the rows it yields, for `process(..., output_type=...)`."""
        types = [key_type, Types.STRING(), self._value_type, Types.INT(), Types.STRING()]
        return Types.ROW_NAMED(self._fields, types[: len(self._fields)])

    @staticmethod
    def error_type(key_type: TypeInformation) -> RowTypeInfo:
        """Return the type of the rows that go to `error_tag`."""
        return Types.ROW_NAMED(_ERROR_FIELDS, [key_type, Types.STRING(), Types.STRING()])

    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain the states."""
        state_type = Types.ROW_NAMED(_STATE_FIELDS, [_BYTES, self._value_type, Types.STRING()])
        self._record = runtime_context.get_state(ValueStateDescriptor("upsert", state_type))
        descriptor = ValueStateDescriptor("upsert-tombstone", _BYTES)
        descriptor.enable_time_to_live(self._ttl)
        self._tombstone = runtime_context.get_state(descriptor)
        self._make = row_class(self._fields)._make
        metrics = runtime_context.get_metrics_group()
        self._stale_upserts = metrics.counter("stale_upserts")
        self._upsert_errors = metrics.counter("upsert_errors")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Apply one upsert."""
        key = ctx.get_current_key()
        upsert = self._reader.read(value)
        record = self._record.value()
        try:
            upsert, is_stale = self._place(key, upsert, record)
        except UpsertError as error:
            upsert, is_stale = Upsert(error, None), False
        if isinstance(upsert.value, UpsertError):
            self._upsert_errors.inc()
            if self._on_error != "inline":
                yield from self._divert(key, upsert.value, value)
                return
        if is_stale:
            self._stale_upserts.inc()
            return
        yield from self._changes(key, upsert, record)

    def _place(self, key: Any, upsert: Upsert, record: Any) -> tuple[Upsert, bool]:
        """Return the upsert with the value that will be stored, and whether it is stale.

        Raises:
            UpsertError: The order key does not compare with the known one.
        """
        is_stale = self._is_stale(upsert, record)
        if upsert.value is None or isinstance(upsert.value, UpsertError):
            return upsert, is_stale
        # Spark's key of NULL columns is a tuple of None; Materialize refuses a value for it, too.
        if isinstance(key, tuple) and key and all(part is None for part in key):
            return upsert._replace(value=NullKeyError(_NULL_KEY)), is_stale
        if is_stale:
            return upsert, True
        try:
            return upsert._replace(value=self._normalize(upsert, record)), False
        except ValueDecodeError as error:
            return upsert._replace(value=error), False

    def _is_stale(self, upsert: Upsert, record: Any) -> bool:
        if upsert.order is None:
            return False
        known = self._read_order(record)
        return known is not None and not is_newer(upsert.order, decode_value(known))

    def _read_order(self, record: Any) -> bytes | None:
        """Return the order key of the record or tombstone, as it is stored."""
        if not self._reader.is_ordered:
            return None
        order: bytes | None = self._tombstone.value() if record is None else record.order
        return order

    def _normalize(self, upsert: Upsert, record: Any) -> Any:
        """Return the value as it will be read back, so that it is retracted as it was yielded.

        Raises:
            ValueDecodeError: The value does not fit the type, or lacks fields that the row before
                lacks, too.
        """
        value = upsert.value
        if upsert.unavailable:
            value = _complete(value, upsert.unavailable, None if record is None else record.value)
        try:
            return self._value_type.thaw(self._value_type.freeze(value))
        except StateValueError as error:
            raise ValueDecodeError(str(error)) from error

    def _divert(self, key: Any, error: UpsertError, element: Any) -> Iterator[Any]:
        if self._on_error == "raise":
            raise error
        if self._on_error == "side_output":
            yield self._error_tag, _ERROR_ROW._make((key, text_of(error), _text(element)))

    def _changes(self, key: Any, upsert: Upsert, record: Any) -> Iterator[Row]:
        value = upsert.value
        order = self._read_order(record) if upsert.order is None else encode_value(upsert.order)
        # All state is written before the first row is yielded: the caller may stop reading rows.
        if value is None:
            if record is not None:
                self._record.clear()
            if order is not None:
                self._tombstone.update(order)
        else:
            error = text_of(value) if isinstance(value, UpsertError) else None
            value = None if error is not None else value
            self._record.update(_STATE_ROW._make((order, value, error)))
            if record is None and self._reader.is_ordered:
                self._tombstone.clear()
        if record is not None and record.error is not None and self._on_error != "inline":
            # The error was yielded with on_error="inline", before a restart; no row can retract it.
            record = None
        if record is not None:
            op = row.DELETE if upsert.value is None else row.UPDATE_BEFORE
            yield self._row(key, op, record.value, -1, record.error)
        if upsert.value is not None:
            op = row.INSERT if record is None else row.UPDATE_AFTER
            yield self._row(key, op, value, 1, error)

    def _row(self, key: Any, op: str, value: Any, diff: int, error: str | None) -> Row:
        return self._make((key, op, value, diff, error)[: len(self._fields)])


def _complete(value: Any, unavailable: tuple[str, ...], before: Any) -> Any:
    """Fill the fields that an event lacks from the row before."""
    fields = value.as_dict() if isinstance(value, Row) else value
    if not isinstance(fields, Mapping):
        msg = f"only a row can have unavailable columns, got {short_repr(value)} without {list(unavailable)}"
        raise ValueDecodeError(f"{msg}; decode it into a row")
    known = before.as_dict() if isinstance(before, Row) else before
    missing = [name for name in unavailable if not isinstance(known, Mapping) or name not in known]
    if missing:
        msg = (
            f"columns that a change leaves alone must be known from the row before, got {missing} "
            "without one; read the table's snapshot first, or set REPLICA IDENTITY FULL"
        )
        raise ValueDecodeError(msg)
    return {**fields, **{name: known[name] for name in unavailable}}


def _check_selector(name: str, given: Any) -> None:
    if not callable(given) and not (isinstance(given, str) and given):
        msg = f"{name} must be the name of a field or a function of the element, got {short_repr(given)}"
        raise DeclarationTypeError(f"{msg}; for example {name}='{name}'")


def _check_errors(on_error: Any, error_tag: Any) -> None:
    check_choice(on_error, ON_ERROR, "on_error")
    if error_tag is not None and not isinstance(error_tag, OutputTag):
        msg = f"error_tag must be an OutputTag, got {short_repr(error_tag)}; for example OutputTag('errors')"
        raise DeclarationTypeError(msg)
    if on_error == "side_output" and error_tag is None:
        msg = "on_error='side_output' needs an error_tag, got None; give OutputTag('errors', type)"
        raise DeclarationValueError(msg)


def _text(element: Any) -> str:
    """Return an element as text, not shortened: it may be corrected and sent again."""
    try:
        return repr(element)
    except Exception:  # the user's own `__repr__` failed
        return short_repr(element)


# Elements


Selector = str | Callable[[Any], Any]

_ABSENT = object()


class Upsert(NamedTuple):
    """The request of one element.

    `value` is None for a deletion, and may be an `UpsertError`.  `order` is None if the element has
    no order key.  `unavailable` names the fields that the value lacks.
    """

    value: Any
    order: Any
    unavailable: tuple[str, ...] = ()


class ElementReader:
    """Reads the value and the order key of elements.

    Args:
        value: The name of the field with the value, or a function of the element.
        order_key: The same for the order key; if None, elements are ordered by arrival.
    """

    def __init__(self, value: Selector, order_key: Selector | None) -> None:
        self._value = value
        self._order_key = order_key

    @property
    def is_ordered(self) -> bool:
        """Whether elements have order keys."""
        return self._order_key is not None

    def read(self, element: Any) -> Upsert:
        """Return the request of the element; an error in its value or order key becomes its value.

        Raises:
            DeclarationValueError: The element has no field of that name.
        """
        try:
            order = None if self._order_key is None else self._order(element)
        except OrderKeyError as error:
            # An event that could not be decoded may lack its order key; its own error says more.
            reason = field_of(element, "error", None) if isinstance(self._value, str) else None
            return Upsert(error if reason is None else error_of(reason), None)
        if not isinstance(self._value, str):
            return Upsert(self._call(element), order)
        value = _field(element, self._value)
        if value is None:
            reason = field_of(element, "error", None)
            return Upsert(None if reason is None else error_of(reason), order)
        unavailable = field_of(element, "unavailable", None)
        if unavailable and isinstance(unavailable, (list, tuple)):
            return Upsert(value, order, tuple(unavailable))
        return Upsert(value, order)

    def _order(self, element: Any) -> Any:
        if isinstance(self._order_key, str):
            return check_order(_field(element, self._order_key))
        assert self._order_key is not None
        try:
            order = self._order_key(element)
        except Exception as error:
            msg = f"order_key failed for {short_repr(element)}: {shown_error(error)}"
            raise OrderKeyError(msg) from error
        return check_order(order)

    def _call(self, element: Any) -> Any:
        assert not isinstance(self._value, str)
        try:
            return self._value(element)
        except UpsertError as error:
            return error
        except Exception as error:
            msg = f"value failed for {short_repr(element)}: {shown_error(error)}"
            failure = ValueDecodeError(msg)
            failure.__cause__ = error
            return failure


def _field(element: Any, name: str) -> Any:
    found = field_of(element, name, _ABSENT)
    if found is _ABSENT:
        msg = f"an element must have the field {name!r}, got {short_repr(element)}; name a field it has"
        raise DeclarationValueError(msg)
    return found
