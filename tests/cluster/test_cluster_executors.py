# SPDX-License-Identifier: Apache-2.0
"""Executors that are killed, come and go while a stateful stream runs: every record counts once.

The checkpoint is a directory that all nodes share.  Each test prints how long its batches took.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from random import Random

import pytest
from cluster_support import Cluster, await_that, packages_but_ours, python_with
from fault_ledger import Record, batches_of, golden, with_fault
from fault_support import Place
from surroundings import REPOSITORY

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

DRIVER = str(REPOSITORY / "tests" / "support" / "cluster_driver.py")
BACKENDS = ["heap", "rocksdb of the executor"]
SEED = 6
MANY_KEYS = 20_000
PATIENCE = 300


class Run:
    """Ledgers on a cluster, one for each backend, fed batch by batch."""

    def __init__(self, root):
        self.places = {name: Place(root / name.split()[0]) for name in BACKENDS}
        self.fed = []
        self._records_in = {}

    def feed(self, process, *batches):
        """Give all of them the same micro-batches, and wait until each has put out each record."""
        for batch in batches:
            self.fed.append(batch)
            for place in self.places.values():
                place.feed(batch)
            await_that(lambda: self._is_all_out() or process.poll() is not None, PATIENCE)
            assert process.poll() is None, "the driver ended; its log is driver.log"

    def _is_all_out(self):
        return min(map(self._records, self.places.values())) >= sum(map(len, self.fed))

    def _records(self, place):
        for file in place.output.glob("[0-9]*"):
            if file not in self._records_in:
                rows = json.loads(file.read_text())
                self._records_in[file] = sum(row[1].startswith("record") for row in rows)
        return sum(count for file, count in self._records_in.items() if file.parent == place.output)

    def end(self, process):
        """Let the driver end; what Spark told of the batches, for each backend."""
        for place in self.places.values():
            (place.root / "enough").touch()
        assert process.wait(120) == 0
        return {
            name: json.loads((place.root / "progress.json").read_text())
            for name, place in self.places.items()
        }

    def kept(self):
        """Whether each sink has what it must have: every record once, with the right state."""
        return {name: golden(self.fed) == place.sunk() for name, place in self.places.items()}


@pytest.fixture
def cluster(tmp_path):
    """A cluster that has no worker yet."""
    python = python_with(tmp_path / "node", packages_but_ours(tmp_path / "packages"))
    with Cluster(tmp_path, python) as cluster:
        yield cluster


@contextlib.contextmanager
def submitted(cluster, run, partitions):
    """The job, shipped with pyflinklike as a zip."""
    root = cluster.directory
    shipped = shutil.make_archive(str(root / "pyflinklike"), "zip", REPOSITORY, "pyflinklike")
    queries = json.dumps([(str(place.root), name) for name, place in run.places.items()])
    with cluster.running(
        ["--py-files", shipped, DRIVER, queries],
        root / "driver.log",
        spark_sql_shuffle_partitions=str(partitions),
        # A task goes where a core is free, not where its state is.
        spark_locality_wait="0",
    ) as process:
        yield process


def show(told):
    """How long each batch took, and how it came by its state, for whoever reads the run."""
    for name, batches in told.items():
        for batch in batches:
            sys.stdout.write(f"{name}: {batch}\n")


def test_an_executor_killed_in_mid_batch_is_made_good(cluster, tmp_path, capsys):
    """Its tasks go to the other one, which rebuilds their state from the checkpoint."""
    random = Random(SEED)
    many = [
        Record(f"key {n}", 1_000_000 + n % 100, random.randrange(100)) for n in range(MANY_KEYS)
    ]
    before, struck, after = batches_of(SEED, count=3)
    run = Run(tmp_path)
    cluster.add_worker()
    cluster.add_worker()
    with submitted(cluster, run, partitions=2) as process:
        run.feed(process, many, before, with_fault(struck, "executor:once:"), after)
        told = run.end(process)
    with capsys.disabled():
        show(told)

    assert dict.fromkeys(BACKENDS, True) == run.kept()
    for name, place in run.places.items():
        assert ["once"] == [marker.name for marker in place.markers.iterdir()]
        assert sum(batch["cold_loads"] for batch in told[name]) > 0


def test_key_groups_that_move_keep_their_state(cluster, tmp_path, capsys):
    """Two workers, then four, then three: wherever a key group goes, its state is the same."""
    batches = batches_of(SEED, count=6)
    run = Run(tmp_path)
    first = cluster.add_worker()
    cluster.add_worker()
    with submitted(cluster, run, partitions=4) as process:
        run.feed(process, *batches[:2])
        for worker in cluster.add_worker(), cluster.add_worker():
            await_that(worker.executors)
        run.feed(process, *batches[2:4])
        first.kill()
        run.feed(process, *batches[4:])
        told = run.end(process)
    with capsys.disabled():
        show(told)

    assert dict.fromkeys(BACKENDS, True) == run.kept()
    # They moved: a key group that stays where it is, is warm.
    assert all(sum(batch["cold_loads"] for batch in told[name]) > 0 for name in BACKENDS)
