# SPDX-License-Identifier: Apache-2.0
"""A query that runs for hours while its workers and drivers are killed.

  scripts/soak --hours 2                      on each backend
  scripts/soak --hours 0.1 --backend heap --keys 20000 --into /tmp/soak    that it works: seven minutes
  scripts/soak --judge /tmp/soak/heap         what the notes of one say, also of one that was cut off
  scripts/soak --hours 0.1 --plant leak --into /tmp/planted    ends with 1, or the soak is blind

A query keeps values, a map with TTL and timers by key, and gives its rows to session windows behind
it.  Its records follow from their numbers and the seed, so a model in plain Python says what each
micro-batch must put out; a sink that is exactly once is compared with it, row by row.  Keys come and
go: after six records on average others take their place.

Meanwhile the parent kills Python workers, drivers, and JVMs beneath their drivers, and stops drivers
in good order; it kills only what it started.  Each driver that follows has another `max_warm_bytes`,
and goes on from the checkpoint.  Savepoints are taken beside the query, and must hold what the model
holds.  All is noted in `soak.jsonl` and `progress.jsonl` in the folder of the backend.

The end says what is lost or doubled, and what grows: the time of a micro-batch, the memory and open
files of driver, JVM and workers, the live heap of the JVM, the checkpoint's bytes and files.  Each
gets a slope with its standard error, after the first tenth of the time; processes get a level each,
and a tenth of the hours, ten minutes at most, to warm up.  It grows if the slope is above three
errors and makes more than 5 % of the level over the whole time; of less than an hour proportionally
more.  Where drivers live less than half an hour they hardly tell: `--drivers 0` for whether memory
grows.  The command ends with 1 where something is lost, doubled, wrong or growing.

What Spark keeps for a while is kept for a shorter while (10 micro-batches, 20 jobs), so a soak tells
nothing of how large these become by default.  Spark leaves some files of its RocksDB snapshots
behind that no version names, so the files of the checkpoint grow while its bytes do not.  A soak
needs Linux (`/proc`) and PySpark 4.0 or newer, and a machine that does nothing else: `--trigger 10`
makes a micro-batch every ten seconds, so that something else runs beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
from fault_lives import kill, program, session_of
from fault_support import Place
from soak_notes import Notes, notes_of, verdict_of
from soak_program import Model, Traffic
from surroundings import SPARK_SETTINGS, TOO_BUSY

_POLL_SECONDS, _PATIENCE = 0.5, 600
_KEPT_FILES = 3
_FIRST_BATCHES = 4
"""Of a driver, before which it is left alone: else a slow machine would do nothing but start."""
_WARM_BYTES = (0, 4 * 1024**2, 512 * 1024**2)
_HEIRS = ("driver", "driver", "jvm", "stop")
_DRIVER_BEGINS = "Using Spark's default log4j profile"
_PAGE = os.sysconf("SC_PAGE_SIZE")


@attrs.frozen
class Schedule:
    """How often what happens, in seconds.

    Args:
        whole: The time of a backend, from its first micro-batch on.
        worker: Between kills of Python workers, on average; infinite for none.
        driver: Between ends of drivers, on average; infinite for none.
        savepoint: Between savepoints.
        sample: Between measurements.
        trigger: Between micro-batches; 0 for one after the other.
    """

    whole: float
    worker: float
    driver: float
    savepoint: float
    sample: float
    trigger: float

    @classmethod
    def of(cls, hours: float, workers: int, drivers: int, trigger: float) -> Schedule:
        """About so many workers and drivers, however long it takes."""
        whole = hours * 3_600
        sample = min(max(whole / 720, 1), 10)
        worker, driver = (whole / count if count else math.inf for count in (workers, drivers))
        return cls(whole, worker, driver, max(whole / 20, 20), sample, trigger)


class Soak:
    """One backend's run.

    Args:
        root: The folder, which is new.
        backend: "heap" or "rocksdb".
        traffic: The records.
        schedule: Of faults and measurements.
        memory: Of the JVM, such as "1g".
        slots: The number of tasks at a time, and of partitions.
    """

    def __init__(
        self,
        root: Path,
        backend: str,
        traffic: Traffic,
        schedule: Schedule,
        memory: str,
        slots: int,
    ) -> None:
        self.place, self.notes = Place(root), Notes(root / "soak.jsonl")
        self.backend, self.traffic, self.schedule = backend, traffic, schedule
        self.chance = random.Random(traffic.seed)
        self.model = Model(traffic)
        self.life = 0
        self.failures = 0
        self._end = math.inf
        self._saved: dict[int, dict[str, int]] = {}
        self._read = 0
        self._settings = {
            **SPARK_SETTINGS,
            # A worker that is killed fails a task, which is tried again.
            "spark.master": f"local[{slots},8]",
            "spark.sql.shuffle.partitions": str(slots),
            "spark.driver.memory": memory,
            # All of the heap at once: what grows then is beside it.
            "spark.driver.extraJavaOptions": (
                f"{SPARK_SETTINGS['spark.driver.extraJavaOptions']} -Xms{memory} -XX:+AlwaysPreTouch"
            ),
            "spark.local.dir": str(root / "local"),
            # What is kept comes to its level within the first tenth.
            "spark.sql.streaming.minBatchesToRetain": "10",
            "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
            "spark.ui.retainedJobs": "20",
            "spark.ui.retainedStages": "20",
            "spark.ui.retainedTasks": "100",
            "spark.sql.ui.retainedExecutions": "20",
        }

    def run(self) -> None:
        """Drivers one after the other, until the time is over or nothing moves."""
        self.notes.note(
            "soak", backend=self.backend, **attrs.asdict(self.traffic), life=self.traffic.life
        )
        while time.monotonic() < self._end and self.failures < 3:
            self.life += 1
            warm = self.chance.choice(_WARM_BYTES) if self.backend == "heap" else None
            self.notes.note("life", number=self.life, max_warm_bytes=warm)
            job = {
                "root": self.place.root,
                "backend": self.backend,
                "max_warm_bytes": warm,
                "traffic": attrs.asdict(self.traffic),
                "trigger": self.schedule.trigger,
                "settings": self._settings,
                "life": self.life,
            }
            with program("soak_driver.py", job, self.place.root / "drivers.log") as driver:
                self._live(driver)
            self._compare()
            # What a killed JVM had on its local disk is of no use to the next.
            shutil.rmtree(self.place.local, ignore_errors=True)
            self.place.local.mkdir()
        self.notes.note("ended", batches=self.model.number)

    def _live(self, driver: subprocess.Popen[bytes]) -> None:
        """One driver's life: until it is killed, stopped, or ends."""
        first, moved = self.model.number, time.monotonic()
        worker_at = driver_at = saved_at = sample_at = math.inf
        while driver.poll() is None:
            time.sleep(_POLL_SECONDS)
            now = time.monotonic()
            if self._compare():
                moved = now
                # A machine with much to do takes minutes to start: the time is that of the query.
                self._end = min(self._end, now + self.schedule.whole)
            if math.isinf(sample_at) and self.model.number >= first + _FIRST_BATCHES:
                # The first savepoint loads packages into the driver: a step, which is no growth.
                sample_at = saved_at = now
                worker_at, driver_at = map(self._in, (self.schedule.worker, self.schedule.driver))
            if now > sample_at:
                self._sample(driver.pid)
                sample_at = now + self.schedule.sample
            if now > saved_at:
                (self.place.root / "savepoint").touch()
                saved_at = now + self.schedule.savepoint
            if now > self._end:
                self._stop(driver)
                return
            if now - moved > _PATIENCE:
                self._fail(f"life {self.life}: no micro-batch for {_PATIENCE} seconds")
                return
            if now > worker_at:
                self._kill_worker(driver.pid)
                worker_at = self._in(self.schedule.worker)
            if now > driver_at:
                self._end_life(driver)
                return
        self._failed(driver, "ended")

    def _failed(self, driver: subprocess.Popen[bytes], how: str) -> None:
        """Note that a driver failed; not as an error where Spark's workers had no time to start."""
        log = (self.place.root / "drivers.log").read_text(errors="replace")
        if TOO_BUSY in log.rpartition(_DRIVER_BEGINS)[2]:
            self.notes.note("fault", fault="machine too busy", life=self.life)
            return
        self._fail(f"life {self.life}: the driver {how} with {driver.returncode}: {log[-4_000:]}")

    def _in(self, seconds: float) -> float:
        if math.isinf(seconds):
            return seconds
        return time.monotonic() + min(self.chance.expovariate(1 / seconds), 3 * seconds)

    def _fail(self, text: str) -> None:
        self.failures += 1
        self.notes.note("error", text=text)

    # Faults

    def _kill_worker(self, driver: int) -> None:
        workers = processes(driver)["workers"]
        if workers:
            worker = self.chance.choice(sorted(workers))
            self.notes.note("fault", fault="worker", pid=worker)
            _kill(worker)

    def _end_life(self, driver: subprocess.Popen[bytes]) -> None:
        fault = self.chance.choice(_HEIRS)
        self.notes.note("fault", fault=fault, life=self.life)
        if fault == "stop":
            self._stop(driver)
        elif fault == "jvm":
            for jvm in processes(driver.pid)["jvm"]:
                _kill(jvm)
            self._await_end(driver)
        else:
            kill(driver)

    def _stop(self, driver: subprocess.Popen[bytes]) -> None:
        stop = self.place.root / "stop"
        stop.touch()
        if not self._await_end(driver):
            self._fail(f"life {self.life}: the driver did not stop within {_PATIENCE} seconds")
        elif driver.returncode:
            self._failed(driver, "stopped")
        stop.unlink()

    def _await_end(self, driver: subprocess.Popen[bytes]) -> bool:
        try:
            driver.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return False
        return True

    # What came out

    def _compare(self) -> bool:
        """Compare what is new in the sink with the model; whether anything was."""
        was = self.model.number
        output = self.place.output
        while (file := output / f"{self.model.number:04}").exists():
            number = self.model.number
            got = [tuple(row) for row in json.loads(file.read_text())]
            expected = self.model.run()
            lost = doubled = 0
            if got != expected:
                missing, others = Counter(expected), Counter(got)
                missing, others = missing - others, others - missing
                lost, doubled = missing.total(), others.total()
                some = {"lost": sorted(missing)[:3], "doubled": sorted(others)[:3]}
                self.notes.note("difference", batch=number, **some)
            self.notes.note("checked", batch=number, rows=len(got), lost=lost, doubled=doubled)
            self._saved[number] = self.model.saved()
            self._saved.pop(number - 1_000, None)
            # Not the last ones, which a driver may do again.
            (output / f"{number - _KEPT_FILES:04}").unlink(missing_ok=True)
        for name in os.listdir(output):
            if name[0].isdigit() and int(name) < self.model.number - _KEPT_FILES - 1:
                self._fail(f"micro-batch {int(name)} was done again after {self.model.number}")
                (output / name).unlink()
        self._compare_savepoints()
        return self.model.number > was

    def _compare_savepoints(self) -> None:
        notes, self._read = self.notes.read(after=self._read)
        for note in notes:
            expected = self._saved.get(note.get("batch", -1))
            if note["what"] != "savepoint" or expected is None:
                continue
            got = {name: note[name] for name in expected}
            if got == expected:
                self.notes.note("saved", batch=note["batch"], seconds=note["seconds"], **got)
            else:
                self._fail(f"the savepoint of {note['batch']} has {got}, the model {expected}")

    # Measurements

    def _sample(self, driver: int) -> None:
        found = processes(driver)
        self.notes.note(
            "sample",
            life=self.life,
            batch=self.model.number - 1,
            keys=self.model.saved()["keys"],
            processes=sum(map(len, found.values())),
            memory=_measured(found, _resident),
            files=_measured(found, _open_files),
            checkpoint=_size(self.place.checkpoint),
            local=_size(self.place.local),
        )


def processes(driver: int) -> dict[str, list[int]]:
    """The processes of a driver's session: itself, its JVM, and Python's workers."""
    found: dict[str, list[int]] = {"driver": [driver], "jvm": [], "workers": []}
    for pid in session_of(driver):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if name == "java":
            found["jvm"].append(pid)
        elif b"pyspark" in command and b"daemon" in command:
            found["workers"].append(pid)
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _measured(found: dict[str, list[int]], measure: Any) -> dict[str, Any]:
    """A sum of drivers and JVMs, and one number for each worker."""
    made: dict[str, Any] = {"driver": 0, "jvm": 0, "workers": {}}
    for what, pids in found.items():
        for pid in pids:
            with contextlib.suppress(OSError):  # it ended meanwhile
                if what == "workers":
                    made[what][str(pid)] = measure(pid)
                else:
                    made[what] += measure(pid)
    return made


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def _open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _size(folder: Path) -> dict[str, int]:
    sizes = []
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # Spark deletes meanwhile
                sizes.append(os.lstat(os.path.join(at, name)).st_size)
    return {"bytes": sum(sizes), "files": len(sizes)}


def judge(folder: Path, hours: float) -> bool:
    """Say what the notes of a folder tell."""
    notes = notes_of(folder)
    verdict = verdict_of(notes, settle=min(max(hours * 360, 30), 600))
    Notes(folder / "soak.jsonl").note("verdict", **attrs.asdict(verdict), is_good=verdict.is_good)
    print("\n".join([f"== {folder.name}", *verdict.told()]), flush=True)
    return verdict.is_good


def main() -> int:
    """Run and judge, or only judge."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    few = (os.cpu_count() or 1) < 8
    parser.add_argument("--hours", type=float, default=1.0, help="of each backend (1)")
    parser.add_argument("--backend", choices=["heap", "rocksdb", "both"], default="both")
    parser.add_argument("--keys", type=int, default=100_000 if few else 2_000_000, help="at a time")
    parser.add_argument("--records", type=int, default=0, help="of a micro-batch (keys / 10)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument(
        "--workers", type=int, default=40, help="or keepers that are killed, about (40)"
    )
    parser.add_argument("--drivers", type=int, default=8, help="that are killed or stopped (8)")
    parser.add_argument(
        "--trigger", type=float, default=0, help="seconds between micro-batches (0)"
    )
    parser.add_argument("--slots", type=int, default=2, help="of the session, and partitions (2)")
    parser.add_argument("--memory", default="1g" if few else "4g", help="of the JVM")
    parser.add_argument("--into", type=Path, default=Path("build/soak"), help="a new folder")
    parser.add_argument("--judge", type=Path, help="only judge a folder again, that of a backend")
    parser.add_argument(
        "--plant",
        choices=["loss", "doubling", "leak"],
        default="",
        help="a fault in the query, which the soak must see",
    )
    options = parser.parse_args()
    gc.disable()  # the model has millions of small objects and no circles
    if options.judge:
        return not judge(options.judge, options.hours)
    traffic = Traffic(
        options.keys, options.records or options.keys // 10, options.seed, options.plant
    )
    print(f"{traffic}, a life of {traffic.life} micro-batches; --seed {options.seed}", flush=True)
    good = True
    for backend in ["heap", "rocksdb"] if options.backend == "both" else [options.backend]:
        folder = options.into.absolute() / backend
        if folder.exists():
            parser.error(f"--into must be a folder without a soak, got {folder}; give another")
        schedule = Schedule.of(options.hours, options.workers, options.drivers, options.trigger)
        Soak(folder, backend, traffic, schedule, options.memory, options.slots).run()
        good &= judge(folder, options.hours)
    return not good


if __name__ == "__main__":
    sys.exit(main())
