# SPDX-License-Identifier: Apache-2.0
"""The outputs of an operator as its user declares them: by our types, DDL or Spark's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.dead_letters import LETTER_FIELDS, DeadLetters
from pyflinklike.functions.output_tag import ChangelogTag, OutputTag
from pyflinklike.spark._plan.event_time import EventTimeMark
from pyflinklike.spark._plan.operator_chain import without_phases
from pyflinklike.spark._plan.process_options import SideOutputs
from pyflinklike.spark._wire.output_layout import OutputLayout
from pyflinklike.spark._wire.schema import changelog_schema, output_schema
from pyflinklike.spark._wire.system_columns import OUTPUT_TAG
from pyflinklike.types import TypeInformation, Types

__all__ = ["DeclaredOutputs"]


@attrs.frozen
class DeclaredOutputs:
    """The schemas of outputs.

    Args:
        main: The schema of the main output.
        sides: The schema of each side output, by tag id.
    """

    main: st.StructType
    sides: dict[str, st.StructType]

    @classmethod
    def of(
        cls, df: DataFrame, key_columns: Sequence[str], output_type: Any, side_outputs: SideOutputs
    ) -> DeclaredOutputs:
        """Read the arguments of `process`.

        Args:
            df: The keyed DataFrame, whose session parses DDL.
            key_columns: The columns by which it is keyed.
            output_type: The type of the main output.
            side_outputs: The tags, or a mapping that gives a type (or None) for each tag.

        Raises:
            DeclarationTypeError, DeclarationValueError: A type cannot become columns.
        """
        typed = side_outputs if isinstance(side_outputs, Mapping) else dict.fromkeys(side_outputs)
        main = output_schema(df, output_type)
        sides = {}
        for tag, declared in typed.items():
            if not isinstance(tag, OutputTag):
                msg = f"side_outputs takes OutputTags, got {tag!r}; write OutputTag({tag!r}, type)"
                raise DeclarationTypeError(msg)
            kind = _type_of(tag, df, key_columns) if declared is None else declared
            sides[tag.tag_id] = output_schema(df, kind, f"side output {tag.tag_id!r}")
        return cls(main, sides)

    def with_letters(
        self, on_error: DeadLetters, key_fields: Sequence[st.StructField]
    ) -> DeclaredOutputs:
        """Add the side output of dead letters.

        Args:
            on_error: As the user gave it.
            key_fields: The columns of the key; empty if records have no key.

        Raises:
            DeclarationTypeError: It is not `DeadLetters`.
            DeclarationValueError: Another output has the same tag, or a column of the key has the
                name of a column of dead letters.
        """
        given: Any = on_error
        if not isinstance(given, DeadLetters):
            msg = f"on_error takes DeadLetters, got {short_repr(given)}; for example DeadLetters('dead')"
            raise DeclarationTypeError(msg)
        tag_id = on_error.tag.tag_id
        if tag_id in self.sides:
            msg = (
                f"the tag of dead letters declares their side output, got {tag_id!r} in "
                "side_outputs, too; leave it out there"
            )
            raise DeclarationValueError(msg)
        keys = [st.StructField(each.name, each.dataType) for each in key_fields]
        keys = keys or [st.StructField("key", st.StringType())]
        letter = [st.StructField(name, _LETTER_TYPES[kind]) for name, kind in LETTER_FIELDS]
        taken = sorted({each.name for each in keys} & {each.name for each in letter})
        if taken:
            msg = (
                f"key columns must not have the names of the columns of dead letters, got {taken}; "
                "rename them before key_by"
            )
            raise DeclarationValueError(msg)
        return attrs.evolve(self, sides={**self.sides, tag_id: st.StructType([*keys, *letter])})

    def describe(self) -> dict[str, st.StructType]:
        """Return the schemas by the name of each output in messages."""
        sides = {f"side output {tag_id!r}": schema for tag_id, schema in self.sides.items()}
        return {"output_type": self.main, **sides}

    def layout(
        self, mark: EventTimeMark, time_zone: str, operator: str, before_watermark: str | None
    ) -> OutputLayout:
        """Lay out the result, which has all outputs.

        Args:
            mark: Marks the event-time column.
            time_zone: The time zone of the Spark session.
            operator: The operator's name, for messages.
            before_watermark: Name of a column to add, which is true for outputs that came before
                the watermark; None to add no column.

        Raises:
            DeclarationTypeError: The name of that column is not a str.
            DeclarationValueError: Two columns of the result would have one name.
        """
        if before_watermark is not None and not isinstance(before_watermark, str):
            msg = f"output_before_watermark takes a name for a column, got {before_watermark!r}"
            raise DeclarationTypeError(msg)
        sides = {tag: mark.on(without_phases(schema)) for tag, schema in self.sides.items()}
        main = mark.on(without_phases(self.main))
        layout = OutputLayout(main, sides, time_zone, operator, before_watermark)
        names = [field.name.lower() for field in layout.result_type().fields]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            msg = (
                f"the columns of the result must differ in name, got {double} twice; rename them "
                f"({OUTPUT_TAG!r} and the ids of side outputs are columns of the result, too)"
            )
            raise DeclarationValueError(msg)
        return layout


_LETTER_TYPES: dict[TypeInformation, st.DataType] = {
    Types.STRING(): st.StringType(),
    Types.LONG(): st.LongType(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.BinaryType(),
}


def _type_of(tag: OutputTag, df: DataFrame, key_columns: Sequence[str]) -> Any:
    """Return the type that the tag itself has."""
    if isinstance(tag, ChangelogTag):
        return changelog_schema(df, key_columns, tag)
    if tag.type_info == Types.PICKLED_BYTE_ARRAY():
        msg = (
            f"a side output needs a type to become columns, got {tag!r} without one; write "
            f'OutputTag({tag.tag_id!r}, Types.ROW_NAMED(...)) or side_outputs={{tag: "<DDL>"}}'
        )
        raise DeclarationValueError(msg)
    return tag.type_info
