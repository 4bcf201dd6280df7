# SPDX-License-Identifier: Apache-2.0
"""Every backend of `UpsertState` in turn."""

import pytest
from index_support import MAKERS, needs_rocksdict


@pytest.fixture(
    params=["memory", *(pytest.param(n, marks=needs_rocksdict) for n in list(MAKERS)[1:])]
)
def backend(request, tmp_path):
    """Each backend in turn."""
    backend = MAKERS[request.param](tmp_path)
    yield backend
    backend.close()
