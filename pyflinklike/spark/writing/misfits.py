# SPDX-License-Identifier: Apache-2.0
"""Rows for which a verb of `Savepoint` has no answer, looked for when the savepoint is used."""

from __future__ import annotations

import attrs
from pyspark.sql import DataFrame

from pyflinklike.errors import StateValueError
from pyflinklike.shown import shown

__all__ = ["Misfits"]


@attrs.frozen(eq=False)
class Misfits:
    """Rows for which a verb has no answer.

    Args:
        rows: The rows; there should be none.
        rule: The rule that the rows break, for the message.
        remedy: The advice of the message.
    """

    rows: DataFrame
    rule: str
    remedy: str

    def refuse(self) -> None:
        """Refuse the first of the rows, if there is any; this runs a job of Spark.

        Raises:
            StateValueError: There is a row.
        """
        row = self.rows.first()
        if row is not None:
            msg = f"{self.rule}, got {shown(row.asDict(recursive=True))}; {self.remedy}"
            raise StateValueError(msg)
