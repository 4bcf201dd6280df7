# SPDX-License-Identifier: Apache-2.0
"""What an operator's record says of its states."""

import pytest

from pyflinklike.state_processor._logs.state_infos import owner_of


@pytest.mark.parametrize(
    ("table", "owner"), [("last", "last"), ("kv/time", "kv"), ("a/b", "a/b"), ("a", "a")]
)
def test_a_table_belongs_to_a_state_or_to_a_store(table, owner):
    """A store has several; a state with a slash in its name is none of another's."""
    assert owner == owner_of(table, {"last", "kv", "a", "a/b"})
