# SPDX-License-Identifier: Apache-2.0
"""An empty view, and its clock."""

from __future__ import annotations

import pytest
from view_support import Time

from pyflinklike.views import MaterializedView


@pytest.fixture
def clock():
    """The time of the view."""
    return Time()


@pytest.fixture
def view(tmp_path, clock):
    """An empty view by `id`."""
    with MaterializedView("prices", key="id", path=tmp_path, clock=clock) as opened:
        yield opened
