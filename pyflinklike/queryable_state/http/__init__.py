# SPDX-License-Identifier: Apache-2.0
"""Queries over HTTP: a replica or a view as a WSGI application, which any server runs.

from pyflinklike.queryable_state.http import app

application = app(open_state(spark, "/checkpoints/visits"))
"""

from pyflinklike._exports import pin
from pyflinklike.queryable_state.http.application import app

__all__ = ["app"]

pin(globals())
