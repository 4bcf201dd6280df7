# SPDX-License-Identifier: Apache-2.0
"""The name and type of a side output."""

from __future__ import annotations

from typing import Any, Generic, overload

import attrs

from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import T
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.row import Row


def _to_type_info(type_info: TypeInformation | list[TypeInformation] | None) -> TypeInformation:
    """Return the type of a side output, made as PyFlink makes it."""
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(type_info, list):
        return Types.ROW(type_info)
    given: Any = type_info
    if not isinstance(given, TypeInformation):
        msg = (
            f"OutputTag type_info must be None, list or TypeInformation, "
            f"got {short_repr(given)}; {instance_of(TypeInformation, given, 'give for example Types.STRING()')}"
        )
        raise DeclarationTypeError(msg)
    return given


@attrs.frozen(init=False)
class OutputTag(Generic[T], WithoutJava):
    """The name and type of a side output, as `pyflink.datastream.OutputTag`.

    Two tags with the same id are the same tag, whatever their types, as in PyFlink, which finds
    outputs by id.

    Example:
        ```python
        late = OutputTag("late", Types.STRING())

        def process_element(self, value, ctx):
            yield late, "too late"
        ```

    Args:
        tag_id: The name of the side output, not empty.
        type_info: The type of the elements yielded to it.  A list stands for a row of these types;
            None stands for pickled objects.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: The name is empty or None.
    """

    tag_id: str = attrs.field()
    type_info: TypeInformation[T] = attrs.field(default=None, converter=_to_type_info, eq=False)

    @overload
    def __init__(self, tag_id: str, type_info: TypeInformation[T]) -> None: ...
    @overload
    def __init__(self: OutputTag[Row], tag_id: str, type_info: list[TypeInformation]) -> None: ...
    @overload
    def __init__(self: OutputTag[Any], tag_id: str, type_info: None = None) -> None: ...
    def __init__(self, tag_id: str, type_info: Any = None) -> None:
        # Written by hand, because no converter can show a type checker what `T` becomes.
        self.__attrs_init__(tag_id, type_info)

    @tag_id.validator
    def _check_tag_id(self, _: attrs.Attribute[str], tag_id: Any) -> None:
        if tag_id is None or tag_id == "":
            msg = (
                f"OutputTag tag_id cannot be None or empty string, got {tag_id!r}; "
                f"give for example OutputTag('late')"
            )
            raise DeclarationValueError(msg)
        if not isinstance(tag_id, str):
            msg = (
                f"OutputTag tag_id must be a str, got {tag_id!r}; "
                f"give for example OutputTag('late')"
            )
            raise DeclarationTypeError(msg)


@attrs.frozen
class ChangelogTag(OutputTag[T]):
    """The side output of a store's changes, with the parts of its `ChangelogRecord`.

    On Spark a side output has columns.  A changelog's columns follow from the store's types.  If the
    current key is part of the logged key, they also follow from the stream's key columns, which only
    the host knows.

    Args:
        key_fields: Names and types of the store's part of a logged key.
        value_type: The type of the values.
        has_current_key: True if the logged key begins with the current key.
    """

    key_fields: tuple[tuple[str, TypeInformation], ...] = attrs.field(kw_only=True, eq=False)
    value_type: TypeInformation = attrs.field(kw_only=True, eq=False)
    has_current_key: bool = attrs.field(kw_only=True, eq=False)
