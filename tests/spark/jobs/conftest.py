# SPDX-License-Identifier: Apache-2.0
"""What tests of jobs on Spark share."""

from __future__ import annotations

import pytest


@pytest.fixture
def shipped_module(spark, request):
    """The functions of the test's module go to workers by value, which cannot import it; gives the session."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield spark
    cloudpickle.unregister_pickle_by_value(request.module)
