# SPDX-License-Identifier: Apache-2.0
"""The four kinds of a change, as Flink's RowKind names them."""

from typing import Final

INSERT: Final = "insert"
UPDATE_BEFORE: Final = "update_before"
UPDATE_AFTER: Final = "update_after"
DELETE: Final = "delete"

OPS: Final = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)
