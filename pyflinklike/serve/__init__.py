# SPDX-License-Identifier: Apache-2.0
"""Queries over HTTP: a replica or a view as a WSGI application, which any server runs.

from pyflinklike.serve import app

application = app(open_state(spark, "/checkpoints/visits"))
"""

from pyflinklike.engine.doors import pin
from pyflinklike.serve.application import app

__all__ = ["app"]

pin(globals())
