# SPDX-License-Identifier: Apache-2.0
"""The folder of a job, damaged: it is refused by name, whatever part of it is gone."""

from __future__ import annotations

import shutil

import pytest
from job_folder_support import environment, files, keyed, run

from pyflinklike.errors import CorruptStateError
from pyflinklike.pyflink._spark.job_folder import JobFolder
from pyflinklike.pyflink.common import WatermarkStrategy


def test_every_flipped_bit_of_what_began_a_job_is_seen(tmp_path):
    """Wherever it is."""
    path = run(keyed(environment(tmp_path))).path / "job.json"
    whole, job = path.read_bytes(), keyed(environment(tmp_path))

    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptStateError, match=r"got a damaged one"):
            JobFolder(job.settings)
    path.write_bytes(whole)
    run(job)


def test_a_checkpoint_without_what_began_it_is_refused(tmp_path):
    """Nobody knows whose it is."""
    (run(keyed(environment(tmp_path))).path / "job.json").unlink()

    with pytest.raises(CorruptStateError, match=r"with a checkpoint has a job.json, got"):
        run(keyed(environment(tmp_path)))


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("checkpoint", "without the checkpoint of micro-batch 0, which was written;"),
        ("checkpoint/offsets", "without the checkpoint of micro-batch 0"),
        ("sources", "without the rows of source 0;"),
        ("sources/0", "without the rows of source 0;"),
    ],
)
def test_a_folder_of_which_a_part_was_removed_is_refused(tmp_path, part, told):
    """Whoever wants to begin anew removes all: the rest would have micro-batches be left out."""
    shutil.rmtree(run(keyed(environment(tmp_path))).path / part)

    with pytest.raises(CorruptStateError, match=f"{told}.*remove all of it to begin anew"):
        run(keyed(environment(tmp_path)))


def test_a_folder_without_the_watermark_of_idle_inputs_is_refused(tmp_path):
    """It would fall back; with it the job goes on."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(1000)
    begun = [run(files(environment(tmp_path), "in", None, strategy=strategy)) for _ in range(2)]
    begun[0].watermark.unlink()

    with pytest.raises(CorruptStateError, match=r"without the watermark, watermark\.json;"):
        run(files(environment(tmp_path), "in", None, strategy=strategy))
