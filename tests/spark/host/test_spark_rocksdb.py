# SPDX-License-Identifier: Apache-2.0
"""A stream over the RocksDB backend gives what the default one gives, whatever its disk loses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from host_models import model_stream
from spark_support import (
    RICH_OUTPUT,
    RICH_SCHEMA,
    RICH_SIDE,
    Feed,
    Rich,
    drain,
    pickle_by_value,
    rich_batches,
    rich_harness,
    rich_outputs,
    rich_rows,
)

from pyflinklike import EmbeddedRocksDBStateBackend
from pyflinklike.spark import key_by

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
pickle_by_value(__name__)

SEED = 20240310


class Watched(EmbeddedRocksDBStateBackend):
    """Notes beside its directory whether the key groups it served were on disk."""

    def create_keyed_state_backend(self, scope, owner):
        backend = super().create_keyed_state_backend(scope, owner)
        notes = Path(self.get_db_storage_paths()[0] + ".notes")
        pop_cached = backend.pop_cached

        def noted(index):
            group = pop_cached(index)
            with notes.open("a") as file:
                file.write("cold\n" if group is None else "warm\n")
            return group

        backend.pop_cached = noted
        return backend


def test_a_stream_over_rocksdb_ends_as_one_over_dicts(spark, tmp_path):
    """Two batches in one query, a restart, and a restart without the local directory."""
    feed = Feed(spark, tmp_path / "input", RICH_SCHEMA)
    local = tmp_path / "local"
    backend = Watched()
    backend.set_db_storage_paths(str(local))
    batches = rich_batches(SEED, batches=3, size=120)
    runs, notes = [], []
    for some in (batches[:2], batches[2:]):
        feed.add(*some)
        stream = key_by(feed.stream(), "key").process(
            Rich(),
            RICH_OUTPUT,
            event_time="ts",
            side_outputs=[RICH_SIDE],
            max_parallelism=2,
            state_backend=backend,
        )
        runs.append(drain(stream, tmp_path / "checkpoint"))
        notes.append((tmp_path / "local.notes").read_text().split())
        shutil.rmtree(local)

    actual = rich_rows(row for run in runs for rows in run.values() for row in rows)
    assert rich_outputs(model_stream(rich_harness(), feed.elements(), "ts")) == actual
    # The first batch finds nothing, the second one finds what the first one left.
    assert ["cold", "warm"] == sorted(set(notes[0]))
