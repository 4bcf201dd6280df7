# SPDX-License-Identifier: Apache-2.0
"""How many files of the package one thing passes: python scripts/walks.py [checkout ...].

Each walk is a small program in an interpreter of its own.  The profiler counts the files of ours
whose functions run, on the driver and in Spark's worker.  The worker counts from the `open` of the
user's function on, and the program says how many of our modules it has loaded by then.  The numbers
of several checkouts stand side by side.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent

# `FILES` collects from `begin()` on what runs in this process; a worker appends to `NOTES`.
_COMMON = """
import os, sys, threading
from pathlib import Path
NOTES, HERE = Path(sys.argv[1]), sys.argv[2]


def follow(notes, here):
    import os, sys, threading
    seen = set()

    def see(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(here) and name not in seen:
            seen.add(name)
            with open(notes, "a") as file:
                file.write(name + "\\n")

    sys.setprofile(see)
    threading.setprofile(see)


def begin():
    follow(str(NOTES), HERE)
"""

_FUNCTION = """
from pyflinklike import KeyedProcessFunction, Row, Types, ValueStateDescriptor


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        if "pyspark.worker" in sys.modules or "pyspark.daemon" in sys.modules:
            loaded = sum(name.split(".")[0] == "pyflinklike" for name in sys.modules)
            with open(str(NOTES) + ".loaded", "w") as file:
                file.write(str(loaded))
            follow(str(NOTES), HERE)
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value.amount
        self.total.update(total)
        yield ctx.get_current_key(), total
"""

_SESSION = """
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.log.level", "OFF")
    .getOrCreate()
)
place = os.path.dirname(str(NOTES))
spark.createDataFrame([("ann", 3)], "user string, amount long").write.json(place + "/in")
"""

_QUERY = """
payments = spark.readStream.schema("user string, amount long").json(place + "/in")
from pyflinklike.spark import key_by
totals = key_by(payments, "user").process(Total(), output_type="user string, total long")
query = (
    totals.writeStream.format("noop").option("checkpointLocation", place + "/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
"""

_WALKS = {
    "harness record": f"""{_FUNCTION}
from pyflinklike.testing import KeyedProcessHarness
begin()
with KeyedProcessHarness(Total(), key_selector=lambda row: row.user) as harness:
    assert [("ann", 3)] == harness.process_element(Row(user="ann", amount=3))
""",
    "window element": """
from pyflinklike import ReduceFunction, Row
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import TumblingEventTimeWindows, window


class First(ReduceFunction):
    def reduce(self, value1, value2):
        return value1


begin()
operator = window(TumblingEventTimeWindows.of(1000)).reduce(First())
with KeyedProcessHarness(operator, key_selector=lambda row: row.user) as harness:
    harness.process_element(Row(user="ann", amount=3), timestamp=1)
    assert harness.process_watermark(2000)
""",
    "Spark record": f"{_FUNCTION}{_SESSION}\nbegin()\n{_QUERY}",
    "savepoint": f"""{_FUNCTION}{_SESSION}{_QUERY}
from pyflinklike.state_processor import take_savepoint
begin()
take_savepoint(spark, place + "/checkpoint", place + "/savepoint")
""",
    "PyFlink job on Spark": f"""{_FUNCTION}{_SESSION}
from pyflinklike.pyflink.common import Configuration
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
begin()
settings = Configuration.from_dict({{"execution.target": "spark"}})
env = StreamExecutionEnvironment.get_execution_environment(settings)
stream = env.from_collection([Row(user="ann", amount=3)])
totals = stream.key_by(lambda row: row.user).process(Total())
assert [("ann", 3)] == list(totals.execute_and_collect())
""",
}


def walk(program: str, checkout: Path) -> tuple[int, int | None]:
    """Run a program, and return the files it passed and the modules that a worker had loaded."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        path = Path(folder) / "walk.py"
        path.write_text(_COMMON + program, encoding="utf-8")
        inside = str(checkout.resolve() / "pyflinklike")
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
        environment["PYSPARK_PYTHON"] = sys.executable
        command = [sys.executable, str(path), str(notes), inside]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"the walk failed in {checkout}:\n{done.stderr[-6000:]}")
        files = set(notes.read_text(encoding="utf-8").split("\n")) - {""}
        loaded = notes.with_name("notes.loaded")
        return len(files), int(loaded.read_text()) if loaded.exists() else None


def main() -> None:
    """Print a line for each walk, with a column for each checkout."""
    checkouts = [Path(each) for each in sys.argv[1:]] or [_ROOT]
    for name, program in _WALKS.items():
        found = [walk(program, checkout) for checkout in checkouts]
        print(f"{f'files of: {name}':44}" + "".join(f"{files:>10}" for files, _ in found))  # noqa: T201
        if all(loaded is not None for _, loaded in found):
            print(f"{'  modules loaded by its worker':44}" + "".join(f"{n:>10}" for _, n in found))  # noqa: T201


if __name__ == "__main__":
    main()
