# SPDX-License-Identifier: Apache-2.0
"""Values of every type that a savepoint must bring back as they were."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

from pyflinklike import Instant, Row, Types
from pyflinklike.types import TypeInformation

ROW = Types.ROW_NAMED(["a", "at"], [Types.INT(), Types.SQL_TIME()])
VALUES: dict[TypeInformation, list[Any]] = {
    Types.BOOLEAN(): [True, False],
    Types.LONG(): [0, -(2**63), 2**63 - 1],
    Types.DOUBLE(): [math.nan, -0.0, math.inf],
    Types.FLOAT(): [math.nan, 0.5],
    Types.STRING(): ["", "a\x00é"],
    Types.CHAR(): ["é"],
    Types.BIG_INT(): [0, 10**40, -(2**3000)],
    Types.BIG_DEC(): [Decimal("1.00"), Decimal("-1E+400")],
    Types.INSTANT(): [Instant(-(2**63), 1), Instant(5, 999_999_999)],
    Types.SQL_DATE(): [dt.date(1, 1, 1)],
    Types.SQL_TIME(): [dt.time(23, 59, 59, 999_999), dt.time(0)],
    Types.SQL_TIMESTAMP(): [dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    Types.PICKLED_BYTE_ARRAY(): [{"a": [1]}, 5, None, b"\x80x"],
    Types.PRIMITIVE_ARRAY(Types.BYTE()): [b"", b"\x00\xff"],
    Types.LIST(Types.SQL_TIME()): [[], [dt.time(1)]],
    Types.OBJECT_ARRAY(Types.STRING()): [[None, "x"]],
    Types.MAP(Types.STRING(), Types.INSTANT()): [{}, {"k": Instant(1, 2)}],
    Types.TUPLE([Types.LONG(), ROW]): [(1, Row(a=None, at=dt.time(2))), (None, None)],
    ROW: [Row(a=1, at=None)],
}
"""The least and the greatest, what is empty, None in rows, and what compares oddly."""
