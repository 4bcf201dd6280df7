# SPDX-License-Identifier: Apache-2.0
"""Checks of what declares a join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import shown

__all__ = ["checked_tag", "kind_of_join", "with_late_outputs"]

_KINDS: Final = {
    "inner": "inner",
    "left": "left_outer",
    "leftouter": "left_outer",
    "right": "right_outer",
    "rightouter": "right_outer",
    "full": "full_outer",
    "outer": "full_outer",
    "fullouter": "full_outer",
}
"""By Spark's names of joins, without underscores."""


def kind_of_join(how: Any) -> str:
    """The join that one of Spark's names means.

    Raises:
        DeclarationValueError: It means none that is here.
    """
    kind = _KINDS.get(how.lower().replace("_", "")) if isinstance(how, str) else None
    if kind is None:
        msg = (
            f"how must be 'inner', 'left_outer', 'right_outer' or 'full_outer', got {shown(how)}; "
            "for semi and anti joins write a KeyedCoProcessFunction, or take Spark's own join"
        )
        raise DeclarationValueError(msg)
    return kind


def with_late_outputs(
    declared: Iterable[OutputTag] | Mapping[OutputTag, Any],
    late: Sequence[OutputTag | None],
    schemas: Sequence[Any],
) -> dict[OutputTag, Any]:
    """The side outputs of a join with those of late records, whose type is that of the records.

    Args:
        declared: The others.
        late: The tag of each input's late records, or None.
        schemas: Of the records of each input.

    Raises:
        DeclarationValueError: Two have one tag.
    """
    tags = dict(declared) if isinstance(declared, Mapping) else dict.fromkeys(declared)
    for tag, schema in zip(late, schemas):
        if tag is None:
            continue
        if tag in tags:
            msg = f"side outputs differ by their tags, got {tag.tag_id!r} twice; rename one"
            raise DeclarationValueError(msg)
        tags[tag] = schema
    return tags


def checked_tag(output_tag: Any) -> OutputTag:
    """The tag itself.

    Raises:
        DeclarationTypeError: It is no `OutputTag`.
    """
    if not isinstance(output_tag, OutputTag):
        msg = f"a side output is given by an OutputTag, got {shown(output_tag)}; write OutputTag('late')"
        raise DeclarationTypeError(msg)
    return output_tag
