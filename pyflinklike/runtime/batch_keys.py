# SPDX-License-Identifier: Apache-2.0
"""Key columns for timers, which have no records to take them from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.types import TypeInformation

__all__ = ["KeyColumns"]


@attrs.frozen
class KeyColumns:
    """Makes key columns of the keys in an index.

    Args:
        names: The names of the columns; empty for a host without columns: then one column `key`.
    """

    key_type: TypeInformation
    names: Sequence[str]

    def of(self, keys: Any) -> pa.RecordBatch:
        """Return the key columns of keys, given as the Arrow column of the index."""
        names = list(self.names) or ["key"]
        return pa.RecordBatch.from_arrays(self._parts(keys, len(names)), names=names)

    def _parts(self, keys: Any, count: int) -> list[Any]:
        if pa.types.is_binary(keys.type):  # the index holds encoded keys
            shown = [self.key_type.thaw_key(key) for key in self.key_type.from_arrow(keys)]
            parts = [shown] if count == 1 else list(zip(*shown))
            return [pa.array(part) for part in parts]
        if pa.types.is_struct(keys.type) and count > 1:
            parts = keys.flatten()
            return [*parts]
        return [keys]
