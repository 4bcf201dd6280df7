# SPDX-License-Identifier: Apache-2.0
"""Tables that are kept up to date and queried: views, and what serves two of them as one."""

from pyflinklike.upsert.views.change import Change
from pyflinklike.upsert.views.changes import Changes
from pyflinklike.upsert.views.reading import ViewAt
from pyflinklike.upsert.views.serving import ServingView
from pyflinklike.upsert.views.view import Freshness, MaterializedView

__all__ = ["Change", "Changes", "Freshness", "MaterializedView", "ServingView", "ViewAt"]
