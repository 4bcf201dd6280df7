# SPDX-License-Identifier: Apache-2.0
"""The jobs of examples/ with two inputs, restarted after every micro-batch."""

from __future__ import annotations

import pytest
from example_support import example

SIZES = {"fraud_rules": 1_200, "long_rides": 300}


@pytest.mark.parametrize("name", SIZES)
def test_a_job_agrees_with_a_plain_loop(spark, tmp_path, name):
    """At the end, whatever was restarted before; and there is something to be found."""
    job = example(name)
    batches = job.made(SIZES[name])
    tables = {"fraud_rules": ("rules", "payments"), "long_rides": ("starts", "ends")}[name]
    for number, batch in enumerate(batches):
        for table, rows in zip(tables, batch):
            job.write(spark, tmp_path / table, getattr(job, table.upper()), rows, number)
        found = job.run(spark, tmp_path)

    assert len(found) > 20
    assert job.expected(batches) == found
