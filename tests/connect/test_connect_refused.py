# SPDX-License-Identifier: Apache-2.0
"""What needs a classic session, and says so over Spark Connect."""

from __future__ import annotations

import pytest

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink.common import Configuration
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.state_processor import repartition_state


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_a_job_of_the_datastream_api_is_refused_by_name(mode):
    """Before anything of it runs, and with what to do."""
    settings = {"execution.target": "spark", "execution.runtime-mode": mode}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))

    with pytest.raises(
        SparkSetupError, match=r"got one of Spark Connect; submit .* or set execution\.target"
    ):
        list(env.from_collection([1]).execute_and_collect())


def test_state_is_not_repartitioned_over_connect(spark, tmp_path):
    """Spark's interface is not there; a new checkpoint from a savepoint is the other way."""
    with pytest.raises(
        SparkSetupError, match=r"without Spark Connect, got .*connect.*from_savepoint"
    ):
        repartition_state(spark, tmp_path / "checkpoint", 4)
