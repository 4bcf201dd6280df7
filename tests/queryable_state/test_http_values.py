# SPDX-License-Identifier: Apache-2.0
"""Keys out of a URL are the keys that are asked for, or none."""

import pytest

from pyflinklike import Types
from pyflinklike.errors import StateValueError
from pyflinklike.queryable_state.http_values import json_key_of, store_key_of
from pyflinklike.state_processor._logs.state_infos import StateInfo

PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


def store_of(key_type):
    """What is known of a store with such keys."""
    fields = dict.fromkeys(each.name for each in StateInfo.__attrs_attrs__)
    return StateInfo(**{**fields, "name": "s", "user_key_type": key_type.signature})


@pytest.mark.parametrize(
    ("text", "key_type", "expected"),
    [
        ('[1, "a"]', PAIR, (1, "a")),
        ("0.1", Types.DOUBLE(), 0.1),
        ("2", Types.DOUBLE(), 2.0),
        ("007", Types.STRING(), "007"),
    ],
)
def test_a_key_of_a_store_is_what_was_given(text, key_type, expected):
    """By the type of the store's keys."""
    assert expected == store_key_of(text, store_of(key_type))


@pytest.mark.parametrize(
    ("text", "key_type"),
    [
        ('[1, "a", 2]', PAIR),
        ("[1]", PAIR),
        ("9007199254740993.0", Types.DOUBLE()),
        ("1e400", Types.DOUBLE()),
    ],
)
def test_a_key_of_a_store_is_not_cut_or_rounded(text, key_type):
    """It would be that of another entry."""
    with pytest.raises(StateValueError, match="a key must be"):
        store_key_of(text, store_of(key_type))


def test_a_key_of_a_view_is_not_rounded():
    """Not within an array either."""
    assert (1, (0.5, "a")) == json_key_of('[1, [0.5, "a"]]')
    with pytest.raises(StateValueError, match="without a point"):
        json_key_of("[9007199254740993.0]")
