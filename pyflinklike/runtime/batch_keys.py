# SPDX-License-Identifier: Apache-2.0
"""The columns of keys, of which there are no records: those of timers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.types import TypeInformation

__all__ = ["KeyColumns"]


@attrs.frozen
class KeyColumns:
    """Makes the columns of keys again.

    Args:
        key_type: Of the keys.
        names: Of the columns; none where a host has no columns: then it is called `key`.
    """

    key_type: TypeInformation
    names: Sequence[str]

    def of(self, keys: Any) -> pa.RecordBatch:
        """The key columns of an Arrow column of keys, as the index has them."""
        names = list(self.names) or ["key"]
        return pa.RecordBatch.from_arrays(self._parts(keys, len(names)), names=names)

    def _parts(self, keys: Any, count: int) -> list[Any]:
        if pa.types.is_binary(keys.type):  # they are encoded
            shown = [self.key_type.thaw_key(key) for key in self.key_type.from_arrow(keys)]
            parts = [shown] if count == 1 else list(zip(*shown))
            return [pa.array(part) for part in parts]
        if pa.types.is_struct(keys.type) and count > 1:
            parts = keys.flatten()
            return [*parts]
        return [keys]
