# SPDX-License-Identifier: Apache-2.0
"""Late records of two DataFrames that are joined, to side outputs."""

from __future__ import annotations

from typing import TypeVar

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.spark.setup.joins import checked_tag

__all__ = ["JoinedLate"]

J = TypeVar("J", bound="JoinedLate")


class JoinedLate:
    """What a join says of records that come too late for it; its methods change it and return it.

    Without a side output they are dropped, and the metric `numLateRecordsDropped` counts them.
    """

    def __init__(self) -> None:
        self._late: list[OutputTag | None] = [None, None]

    def side_output_left_late_data(self: J, output_tag: OutputTag) -> J:
        """Send the late records of the first DataFrame to a side output.

        Args:
            output_tag: Of the side output, whose type is that of the records.

        Raises:
            DeclarationTypeError: It is no `OutputTag`.
        """
        self._late[0] = checked_tag(output_tag)
        return self

    def side_output_right_late_data(self: J, output_tag: OutputTag) -> J:
        """Send the late records of the second DataFrame to a side output.

        Args:
            output_tag: Another one than that of the first DataFrame.

        Raises:
            DeclarationTypeError: It is no `OutputTag`.
        """
        self._late[1] = checked_tag(output_tag)
        return self
