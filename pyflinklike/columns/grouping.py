# SPDX-License-Identifier: Apache-2.0
"""The keys of a batch's records: its distinct keys, and which record has which.

Arrow numbers the values of a column in the order in which they first come.  Keys of ints, bools
and strings, and tuples of these, stay Arrow columns.  Any other key (floats, dates, timestamps,
decimals, bytes, structs) is encoded as functions per record encode it, which costs a call of
Python for each *distinct* key of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pyflinklike.errors import StateValueError
from pyflinklike.types import TupleTypeInfo, TypeInformation
from pyflinklike.types.arrow_rows import to_python

__all__ = ["KeyReader", "frozen_keys", "numbered"]

Freeze = Callable[[Sequence[Any]], list[Any]]


def frozen_keys(key_type: TypeInformation, columns: Sequence[Any]) -> list[Any]:
    """Return the key of each row in the form of tables."""
    values = [to_python(column, "UTC") for column in columns]
    keys: Sequence[Any] = values[0] if len(values) == 1 else list(zip(*values))
    return [key_type.freeze_key(key) for key in keys]


@attrs.frozen
class KeyReader:
    """Reads the keys of records.

    Args:
        columns: Names of the columns that make the key.
        key_type: The type that the keys are declared as.
        freeze: Turns key columns into one frozen key for each row; for keys that are encoded.
    """

    columns: tuple[str, ...]
    key_type: TypeInformation
    freeze: Freeze

    def read(self, records: pa.RecordBatch) -> tuple[Any, Any, Any]:
        """Read the keys of records.

        Returns:
            The distinct keys as an Arrow column of the key type, in the order in which they first
            come; for each record the number of its key; for each key the number of its first
            record.

        Raises:
            StateValueError: A record has no key.
        """
        parts = [records.column(name) for name in self.columns]
        if len(parts) == 1 and parts[0].null_count:
            msg = (
                f"every record needs a key, got null in column {self.columns[0]!r}; filter such "
                "records out, or coalesce the column"
            )
            raise StateValueError(msg)
        kind = self.key_type.arrow_type
        if parts[0].type == kind and not pa.types.is_binary(kind):
            codes, distinct = _encoded(parts[0])
            return distinct, codes, _first_of(codes, len(distinct))
        codes, first = numbered(parts)
        chosen = [part.take(pa.array(first)) for part in parts]
        if pa.types.is_binary(kind):
            return self._encoded(chosen, codes, first)
        if isinstance(self.key_type, TupleTypeInfo):
            fields = [each.cast(field.type) for each, field in zip(chosen, kind)]
            return pa.StructArray.from_arrays(fields, fields=list(kind)), codes, first
        return chosen[0].cast(kind), codes, first

    def _encoded(self, chosen: Sequence[Any], codes: Any, first: Any) -> tuple[Any, Any, Any]:
        """Encode distinct keys; the type may encode several alike, such as -0.0 and 0.0."""
        keys = self.key_type.to_arrow(self.freeze(chosen)).dictionary_encode()
        same = _whole(keys.indices)
        distinct = keys.dictionary
        if len(distinct) == len(first):
            return distinct, codes, first
        firsts = np.full(len(distinct), len(codes), np.int64)
        np.minimum.at(firsts, same, first)
        return distinct, same[codes], firsts


def numbered(parts: Sequence[Any]) -> tuple[Any, Any]:
    """Number each record's combination of values, and find the first record of each."""
    codes, count = _codes(parts[0])
    for part in parts[1:]:
        more, several = _codes(part)
        # Numbered anew after each column: the product of all columns' counts may pass 64 bits.
        codes, count = _codes(pa.array(codes * several + more))
    return codes, _first_of(codes, count)


def _first_of(codes: Any, count: int) -> Any:
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of equal places the last one stays
    return first


def _codes(column: Any) -> tuple[Any, int]:
    if pa.types.is_struct(column.type):
        return _numbered_structs(column)
    codes, distinct = _encoded(column)
    return codes, len(distinct)


def _encoded(column: Any) -> tuple[Any, Any]:
    found = column.dictionary_encode(null_encoding="encode")
    return _whole(found.indices), found.dictionary


def _numbered_structs(column: Any) -> tuple[Any, int]:
    parts = [column.is_null().cast(pa.int8()), *column.flatten()]
    codes, first = numbered(parts)
    return codes, len(first)


def _whole(indices: Any) -> Any:
    return indices.to_numpy().astype(np.int64)
