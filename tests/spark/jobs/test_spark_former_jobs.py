# SPDX-License-Identifier: Apache-2.0
"""The folder of a job of the DataStream API that an earlier commit ran: the job goes on from it as it did there.

`testing/former/<commit>/job-*.zip` were written by `support/former_jobs.py` with that commit.
"""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from former_jobs import BACKENDS, expected_of, outputs_after, restored

FORMER = Path(__file__).parents[2] / "testing" / "former"
CASES = [
    pytest.param(archive, backend, marks=pytest.mark.thorough)
    for backend in BACKENDS
    for archive in sorted(FORMER.glob(f"*/job-{backend}.zip"))
]


@pytest.mark.restarts("job: its folder copied", "goes on")
@pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3),
    reason="PySpark 4.3 wrote the checkpoints, and older ones do not read its files",
)
@pytest.mark.classic(reason="the checkpoint was written without Spark Connect")
@pytest.mark.xdist_group("the place of a former job")
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("archive", "backend"), CASES, ids=lambda each: getattr(each, "stem", str(each))
)
def test_a_job_goes_on_from_a_folder_of_an_earlier_commit(archive, backend):
    """Sums, timers, folds, windows, two inputs and a broadcast one give what they gave with that commit."""
    restored(archive)

    assert expected_of(archive) == outputs_after(backend)
