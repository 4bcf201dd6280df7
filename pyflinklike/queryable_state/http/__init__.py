# SPDX-License-Identifier: Apache-2.0
"""Answers queries over HTTP: a replica or a view as an ASGI application; needs the extra `http`.

from pyflinklike.queryable_state.http import app

application = app(QueryableState.open(spark, "/checkpoints/visits"))
"""

from pyflinklike._checks import lacking
from pyflinklike._exports import export_public

try:
    from pyflinklike.queryable_state.http.application import app
except ImportError as error:
    raise lacking(__name__, "http", error) from error

__all__ = ["app"]

export_public(globals())
