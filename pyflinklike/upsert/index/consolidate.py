# SPDX-License-Identifier: Apache-2.0
"""A chunk of differences, one sketch per key.

`consolidate_scalar` goes difference by difference, `consolidate_vectorized` does a whole chunk at a
time with the same result; a property test compares the two.  Small chunks, and installations
without NumPy, take the first way.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Final

from pyflinklike.upsert.index.sketch import Consolidating, Difference

__all__ = ["consolidate", "consolidate_scalar"]

_FEW: Final = 128
"""With fewer differences the arrays cost more than they save."""


def consolidate(chunk: Sequence[Difference]) -> dict[bytes, Consolidating]:
    """Return the sum of each key's differences, in the order in which the keys first come."""
    if len(chunk) < _FEW or importlib.util.find_spec("numpy") is None:
        return consolidate_scalar(chunk)
    from pyflinklike.upsert.index.vectorized import consolidate_vectorized

    return consolidate_vectorized(chunk)


def consolidate_scalar(chunk: Sequence[Difference]) -> dict[bytes, Consolidating]:
    """Return the same, difference by difference."""
    sketches: dict[bytes, Consolidating] = {}
    for key, value, diff in chunk:
        sketch = sketches.get(key)
        if sketch is None:
            sketch = sketches[key] = Consolidating()
        sketch.merge_encoded(value, diff)
    return sketches
