# SPDX-License-Identifier: Apache-2.0
"""The log of a key group that is still empty."""

import pytest

from pyflinklike._changelog.log_storage import InMemoryLogStorage


@pytest.fixture
def store() -> InMemoryLogStorage:
    """A group without state."""
    return InMemoryLogStorage()
