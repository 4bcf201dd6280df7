# SPDX-License-Identifier: Apache-2.0
"""An empty view, and its clock; a database for views in PostgreSQL."""

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


@pytest.fixture(scope="session")
def schemas():
    """Schemas in a PostgreSQL of the tests' own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
    from postgres_support import Schemas, server_for_tests

    with server_for_tests() as server:
        yield Schemas(server.conninfo)


@pytest.fixture
def schema(schemas):
    """An empty schema."""
    return schemas.new()


@pytest.fixture
def opened(schemas, schema):
    """Opens the view `v` by `id` in an empty schema, as often as one likes."""
    from pyflinklike.views import PostgresView

    views = []

    def open_(**more):
        view = PostgresView(
            "v", key="id", **{"conninfo": schemas.conninfo, "schema": schema, **more}
        )
        views.append(view)
        return view

    yield open_
    for view in views:
        view.close()
