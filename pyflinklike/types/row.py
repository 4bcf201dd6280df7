# SPDX-License-Identifier: Apache-2.0
"""`Row`: a tuple whose fields also have names.

Records, keys and row-typed state are `Row`s, so a row must cost as little as a tuple:

* The names live in a class.  `row_class` makes one class per schema, once.  A row of a schema is a
  bare tuple of that class and has no dict of its own.
* Fields are the descriptors that `collections.namedtuple` uses, so `row.amount` runs no Python code.
  A field called `count`, `index` or `keys` hides the method of that name.  If a field has the name of
  another method of `Row`, or begins with an underscore, read it as `row["as_dict"]`.
* A row is immutable, so state may hold and hand out the same object.  This causes the one difference
  from PyFlink: `set_field_names` can name an unnamed row, but cannot rename a named one.

Two rows are equal if their values and their names are.  A row equals another tuple if their values are
equal.  The hash is the tuple's, which agrees with both.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, NoReturn

from pyflinklike._messages import short_repr

# mypy would take a call of `namedtuple` for the declaration of a class.
_named_tuple: Any = namedtuple
_get_item = tuple.__getitem__
_new_tuple = tuple.__new__


class Row(tuple[Any, ...]):
    """An immutable record, as `pyflink.common.Row`, without a row kind.

    Example:
        ```python
        row = Row(user="ann", amount=3)
        assert (row.user, row["amount"], row[1]) == ("ann", 3, 3)
        ```

    Args:
        *args: The values of an unnamed row.
        **kwargs: The fields of a named row, in this order.

    Raises:
        ValueError: Both values and fields were given.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()
    _positions: ClassVar[dict[str, int]] = {}

    def __new__(cls, /, *args: Any, **kwargs: Any) -> Row:
        """Make a row."""
        if not kwargs:
            return cls._make(args) if cls is Row else _make_checked(cls, args)
        if args:
            msg = (
                f"a Row takes positional values or named fields, not both, got {short_repr(args)} "
                f"and {short_repr(kwargs)}; name all fields or none"
            )
            raise ValueError(msg)
        if cls is Row:
            return row_class(tuple(kwargs))._make(kwargs.values())
        return _new_tuple(cls, cls._in_order(kwargs))

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Row:
        """Make a row of this schema; the caller makes sure that the number of values is right."""
        return _new_tuple(cls, values)

    @classmethod
    def _in_order(cls, fields: dict[str, Any]) -> list[Any]:
        """Return the values of `fields` in the order of this schema."""
        if fields.keys() != cls._positions.keys():
            msg = f"this Row has the fields {list(cls._fields)}, got {list(fields)}; name exactly these"
            raise ValueError(msg)
        return [fields[name] for name in cls._fields]

    def __call__(self, *args: Any) -> Row:
        """Use this row's values as names: `Row("a", "b")(1, 2)` is `Row(a=1, b=2)`."""
        return _make_checked(row_class(tuple(self)), args)

    def field_names(self) -> list[str] | None:
        """Return the names of the fields; None for an unnamed row."""
        return list(type(self)._fields) or None

    def set_field_names(self, field_names: Iterable[str]) -> None:
        """Name the fields of an unnamed row.

        Raises:
            ValueError: The row already has other names, or another number of fields.
        """
        names = tuple(field_names)
        own = type(self)._fields
        if own and own != names:
            msg = (
                f"a named Row keeps its names {list(own)}, got {list(names)}; "
                "make another one by Row(**dict(zip(names, row)))"
            )
            raise ValueError(msg)
        named = row_class(names)
        _check_arity(named, self)
        # All classes of rows have the same layout, because none has slots of its own, so the class may change.
        object.__setattr__(self, "__class__", named)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields by name.

        Args:
            recursive: Whether to turn rows inside the values into dicts, too, also in lists and dicts.

        Raises:
            ValueError: The row has no names.
        """
        values = map(_as_dicts, self) if recursive else self
        return dict(zip(self._names("as_dict"), values))

    def keys(self) -> list[str]:
        """Return the names of the fields, for `dict(row)` and `f(**row)`.

        If a field has this name, `row.keys` is the field; call `row.as_dict()` for a dict.

        Raises:
            ValueError: The row has no names.
        """
        return list(self._names("dict(row)"))

    def _names(self, asked: str) -> tuple[str, ...]:
        names = type(self)._fields
        if not names and len(self):
            msg = f"{asked} needs field names, got {short_repr(self)}; call set_field_names first"
            raise ValueError(msg)
        return names

    def _replace(self, /, **fields: Any) -> Row:
        """Return a row like this one, with these fields changed."""
        cls = type(self)
        unknown = fields.keys() - cls._positions.keys()
        if unknown:
            raise cls._no_such_field(min(unknown))
        return cls._make(map(fields.pop, cls._fields, self))

    def __getitem__(self, item: Any) -> Any:
        """Return the value at a position, or of a field."""
        if type(item) is str:
            try:
                return _get_item(self, self._positions[item])
            except KeyError:
                raise self._no_such_field(item) from None
        return _get_item(self, item)

    def __getattr__(self, name: str) -> Any:
        """Refuse a name that is no field; Python calls this only if it has not found the name."""
        raise AttributeError(str(self._no_such_field(name)))

    @classmethod
    def _no_such_field(cls, name: str) -> _NoSuchFieldError:
        known = f"the fields {list(cls._fields)}" if cls._fields else "no field names"
        return _NoSuchFieldError(
            f"this Row has {known}, got {short_repr(name)}; use one of them or a position"
        )

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        """Refuse to set an attribute: a row is immutable."""
        msg = f"a Row is immutable, got {name} = {short_repr(value)}; use row = row._replace({name}=...)"
        raise AttributeError(msg)

    def __setitem__(self, item: Any, value: Any) -> NoReturn:
        """Refuse to set an item: a row is immutable."""
        msg = f"a Row is immutable, got row[{short_repr(item)}] = {short_repr(value)}; use row = row._replace(name=...)"
        raise TypeError(msg)

    def __eq__(self, other: object) -> bool:
        """Return whether values and names are equal; a tuple that is no row is compared by values."""
        if (
            type(other) is not type(self)
            and isinstance(other, Row)
            and other._fields != self._fields
        ):
            return False
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """Return the opposite of equal."""
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = tuple.__hash__

    def __reduce__(self) -> tuple[Callable[..., Row], tuple[Any, ...]]:
        """Pickle the names and the values, so that a pickle does not name the class."""
        return restore_row, (type(self)._fields, tuple(self))

    def __repr__(self) -> str:
        names = type(self)._fields
        if names:
            return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(names, self))})"
        return f"<Row({', '.join(map(repr, self))})>"


class _NoSuchFieldError(KeyError, ValueError):
    """A row has no field of this name.  PyFlink raises a ValueError, and Python's users a KeyError."""

    __str__ = Exception.__str__


# A field called `keys` stays an attribute: if `row.keys` were the method, it would be always true.
_METHODS = frozenset(vars(Row)) - frozenset(vars(tuple)) - {"keys"}


# Bounded, because a program may make rows of dicts whose keys differ from record to record.
@lru_cache(maxsize=4096)
def row_class(names: tuple[str, ...]) -> type[Row]:
    """Return the class of the rows with these field names; `Row` itself for no names.

    Raises:
        ValueError: A name is not a string or occurs twice.
    """
    if not names:
        return Row
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        msg = f"the field names of a Row must be strings that differ, got {short_repr(names)}; rename some"
        raise ValueError(msg)
    # Keep a reference: without one, Python may collect the class while its descriptors are read.
    template: type = _named_tuple("_", [f"f{i}" for i in range(len(names))])
    namespace: dict[str, Any] = {
        name: vars(template)[f"f{i}"]
        for i, name in enumerate(names)
        if name not in _METHODS and not name.startswith("_")
    }
    namespace["__slots__"] = ()
    namespace["__module__"] = Row.__module__
    namespace["_fields"] = names
    namespace["_positions"] = {name: i for i, name in enumerate(names)}
    return type("Row", (Row,), namespace)


def _check_arity(cls: type[Row], values: tuple[Any, ...]) -> None:
    if len(cls._fields) != len(values):
        msg = f"this Row has the fields {list(cls._fields)}, got {len(values)} values; give one for each"
        raise ValueError(msg)


def _make_checked(cls: type[Row], values: tuple[Any, ...]) -> Row:
    _check_arity(cls, values)
    return cls._make(values)


def restore_row(names: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    """Make the row that was pickled; pickles name this function `pyflinklike.restore_row`."""
    return row_class(names)._make(values)


def _as_dicts(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True) if value._fields else value
    if isinstance(value, list):
        return [_as_dicts(element) for element in value]
    if isinstance(value, dict):
        return {key: _as_dicts(element) for key, element in value.items()}
    return value


# Fields of a row of any class: a mapping, our `Row`, Spark's, or a named tuple


def names_of(row: Any) -> tuple[str, ...] | None:
    """Return the names of a row's fields; None if it has no names."""
    if isinstance(row, Row):  # no getattr: a Row is slow to refuse a name that is no field
        return type(row)._fields or None
    if isinstance(row, tuple):
        # Ask for Spark's names first: Spark's Row would take `_fields` for the name of a column.
        names = getattr(row, "__fields__", None) or getattr(row, "_fields", None)
        return tuple(names) if names else None
    return tuple(row) if isinstance(row, Mapping) else None


def in_order(row: Any, names: tuple[str, ...]) -> Sequence[Any] | None:
    """Return the values of a row in the order of columns, by its names if it has some, or by position.

    Columns f0, f1, and so on have no names of their own, so they take a row with other names by
    position.

    Args:
        row: A mapping, a list, or a tuple of any class.
        names: The names of the columns.

    Returns:
        The values; None if the row does not fit the names or their number, or is no row.
    """
    own = names_of(row)
    if own is not None and own != names:
        if len(own) == len(names) and set(own) == set(names):
            return (
                [row[name] for name in names] if isinstance(row, Mapping) else _picked(row, names)
            )
        if isinstance(row, Mapping) or names != numbered_names(len(names)):
            return None
    if isinstance(row, Mapping):
        return list(row.values())
    is_row = isinstance(row, (tuple, list)) and len(row) == len(names)
    return row if is_row else None


def _picked(row: Any, names: tuple[str, ...]) -> list[Any]:
    own = names_of(row) or ()
    return [tuple.__getitem__(row, own.index(name)) for name in names]


def numbered_names(count: int) -> tuple[str, ...]:
    """Return the names that fields get if a program names none: f0, f1, and so on."""
    return tuple(f"f{i}" for i in range(count))


def misnamed(row: Any, names: tuple[str, ...]) -> str | None:
    """Return which names of a row are wrong, and the remedy, for a message; None if all are right."""
    own = names_of(row)
    if own is None or set(own) == set(names):
        return None
    lacking = [name for name in names if name not in own]
    unknown = [name for name in own if name not in names]
    found = [
        f"{what} {short_repr(some)}"
        for what, some in (("lacks", lacking), ("has", unknown))
        if some
    ]
    return f"it {' and '.join(found)}: a row with names goes by them, so rename or add fields"


def field_of(row: Any, name: str, default: Any) -> Any:
    """Return a field of a row, or an attribute of another object; the default if there is none.

    A field is found by its name even if a method of tuples has the same name, such as `count`.
    """
    if isinstance(row, Row):  # the usual element, and `getattr` would be slow for a missing name
        at = type(row)._positions.get(name)
        return default if at is None else tuple.__getitem__(row, at)
    if isinstance(row, tuple):
        names = names_of(row) or ()
        if name in names:
            return tuple.__getitem__(row, names.index(name))
        return default if hasattr(tuple, name) else getattr(row, name, default)
    return row.get(name, default) if isinstance(row, Mapping) else getattr(row, name, default)


# Kinds of a change, by the names of Flink's RowKind

INSERT: Final = "insert"
UPDATE_BEFORE: Final = "update_before"
UPDATE_AFTER: Final = "update_after"
DELETE: Final = "delete"

OPS: Final = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)
