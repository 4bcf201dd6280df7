# SPDX-License-Identifier: Apache-2.0
"""What a verb of `Savepoint` cannot do, found when the savepoint is used: rows that must not be there."""

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
        rows: Those rows; there should be none.
        rule: That they break.
        remedy: What to do about it.
    """

    rows: DataFrame
    rule: str
    remedy: str

    def refuse(self) -> None:
        """See that there is none.

        Raises:
            StateValueError: There is one.
        """
        row = self.rows.first()
        if row is not None:
            msg = f"{self.rule}, got {shown(row.asDict(recursive=True))}; {self.remedy}"
            raise StateValueError(msg)
