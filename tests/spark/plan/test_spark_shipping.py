# SPDX-License-Identifier: Apache-2.0
"""What `process` arranges on the driver of a session."""

from pyflinklike.spark._plan.session import prepare_workers, reach_driver_worker


def test_a_session_to_which_nothing_was_shipped_is_left_as_it_is(spark):
    """Workers with another environment are other workers, and would be started anew."""
    before = dict(spark.sparkContext.environment)
    prepare_workers(spark)
    reach_driver_worker(spark)
    assert before == spark.sparkContext.environment
