# SPDX-License-Identifier: Apache-2.0
"""The key group of a Python key is the same for ever: checkpoints find their keys by it."""

from __future__ import annotations

import pytest

from pyflinklike.pyflink.datastream.stream_node import ObjectKeyTypeInfo
from pyflinklike.types import Types
from pyflinklike.types.frozen_keys import key_group_of

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
VECTORS = [
    (ObjectKeyTypeInfo(), "a", 26),
    (ObjectKeyTypeInfo(), "", 125),
    (ObjectKeyTypeInfo(), "ä\0", 3),
    (ObjectKeyTypeInfo(), 0, 112),
    (ObjectKeyTypeInfo(), 1, 125),
    (ObjectKeyTypeInfo(), -1, 118),
    (ObjectKeyTypeInfo(), 10**30, 106),
    (ObjectKeyTypeInfo(), b"a", 67),
    (ObjectKeyTypeInfo(), 1.0, 12),
    (ObjectKeyTypeInfo(), True, 47),
    (ObjectKeyTypeInfo(), None, 93),
    (ObjectKeyTypeInfo(), ("a", 1), 88),
    (ObjectKeyTypeInfo(), [1], 85),
    (PAIR, ("a", 1), 117),
    (Types.DOUBLE(), 1.0, 28),
    (Types.BOOLEAN(), True, 102),
    (Types.LONG(), 1, 125),
]


@pytest.mark.parametrize(("kind", "key", "group"), VECTORS)
def test_the_key_group_of_a_key_is_frozen(kind, key, group):
    """Never change a number here: keys would be looked for where they are not."""
    assert key_group_of(kind.freeze_key(key), 128) == group


def test_keys_are_spread():
    """No key group of 16 has more than twice its share of 16,000 keys."""
    counts = [0] * 16
    for number in range(16_000):
        counts[key_group_of(f"user-{number}", 16)] += 1

    assert max(counts) < 2_000
    assert min(counts) > 500
