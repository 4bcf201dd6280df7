# SPDX-License-Identifier: Apache-2.0
"""The checkpoint of a query that an earlier commit ran: the query goes on from it as it did there.

`testing/former/<commit>/checkpoint-*.zip` were written by `support/former_streams.py` with that commit.
"""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from former_streams import BACKENDS, expected_of, outputs_after, restored

FORMER = Path(__file__).parents[2] / "testing" / "former"
CASES = [
    pytest.param(archive, backend, marks=[pytest.mark.thorough] if backend != "heap" else [])
    for backend in BACKENDS
    for archive in sorted(FORMER.glob(f"*/checkpoint-{backend}.zip"))
]


@pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3),
    reason="PySpark 4.3 wrote the checkpoints, and older ones do not read its files",
)
@pytest.mark.classic(reason="the checkpoint was written without Spark Connect")
@pytest.mark.parametrize(
    ("archive", "backend"), CASES, ids=lambda each: getattr(each, "stem", str(each))
)
def test_a_query_goes_on_from_a_checkpoint_of_an_earlier_commit(spark, tmp_path, archive, backend):
    """States, stores, sessions, two inputs, a join and a fold give what they gave with that commit."""
    checkpoint = restored(archive, tmp_path)

    assert expected_of(archive) == outputs_after(spark, checkpoint, tmp_path, backend)
