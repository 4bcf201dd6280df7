# SPDX-License-Identifier: Apache-2.0
"""Each way of shipping pyflinklike to a cluster whose nodes have everything else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile

import pytest
from cluster_support import Cluster, packages_but_ours, python_with, site_packages
from own_wheels import write_wheel
from surroundings import REPOSITORY

venv_pack = pytest.importorskip("venv_pack", reason="venv-pack is not installed (the extra `dev`)")

JOB = str(REPOSITORY / "tests" / "support" / "cluster_job.py")
PAYMENTS = [("ann", 3), ("bob", 10), ("ann", 4)]
TOTALS = [("ann", 3), ("ann", 7), ("bob", 10)]


class Shop:
    """A cluster, and pyflinklike in each form in which it can be shipped."""

    def __init__(self, root, cluster, packages):
        self.root = root
        self.cluster = cluster
        self.wheel = _wheel(root / "wheel")
        self.zip = shutil.copy(self.wheel, root / "pyflinklike.zip")
        self.installed = root / "installed"
        self.python = python_with(self.installed, packages)
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(site_packages(self.installed))

    def sell(self, name, arguments, artifacts=(), **settings):
        """Submit the job from an empty directory; what it printed as JSON, or how it ended."""
        place = self.root / name
        (place / "input").mkdir(parents=True)
        (place / "driver").mkdir()
        lines = [json.dumps({"user": user, "amount": amount}) for user, amount in PAYMENTS]
        (place / "input" / "payments.json").write_text("\n".join(lines))
        done = self.cluster.submit(
            [*arguments, JOB, str(place), *artifacts], place / "driver", **settings
        )
        (place / "log").write_text(done.stdout + done.stderr)
        if done.returncode:
            return done.stdout[-3_000:] + done.stderr
        rows = json.loads(done.stdout.splitlines()[-1])["rows"]
        left = [each.name for each in (place / "driver").iterdir()]
        return [tuple(row[:2]) for row in rows], {row[2] for row in rows}, left


def _wheel(directory):
    source = directory / "source"
    source.mkdir(parents=True)
    shutil.copytree(REPOSITORY / "pyflinklike", source / "pyflinklike")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(REPOSITORY / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    return next(directory.glob("*.whl"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Two workers with one core each, and what can be shipped to them."""
    root = tmp_path_factory.mktemp("cluster")
    packages = packages_but_ours(root / "packages")
    with Cluster(root, python_with(root / "node", packages)) as cluster:
        cluster.add_worker()
        cluster.add_worker()
        yield Shop(root, cluster, packages)


def test_a_zip_among_the_py_files_is_enough(shop):
    """The driver-side worker of transformWithState finds it as the executors do."""
    sold = shop.sell("zip", ["--py-files", shop.zip])
    assert (TOTALS, {"./pyflinklike.zip/pyflinklike/__init__.py"}, []) == sold


def test_a_wheel_among_the_py_files_is_enough(shop):
    """Spark puts no wheel on a path; a wheel is a zip file, and is shipped as one."""
    sold = shop.sell("wheel", ["--py-files", str(shop.wheel)])
    found = {f"./{shop.wheel.stem}.zip/pyflinklike/__init__.py"}
    assert (TOTALS, found, []) == sold


def test_an_artifact_of_the_session_is_enough(shop):
    """The driver has pyflinklike installed; the nodes get what the job adds."""
    driver = {"spark_pyspark_driver_python": str(shop.python)}
    sold = shop.sell("artifact", [], [shop.zip], **driver)
    assert (TOTALS, {"./pyflinklike.zip/pyflinklike/__init__.py"}, []) == sold


def test_an_archive_with_an_environment_is_enough(shop):
    """Spark unpacks it on the driver, too, and the relative Python is linked while the job runs."""
    archive = shop.root / "environment.tar.gz"
    venv_pack.pack(str(shop.installed), output=str(archive))
    sold = shop.sell(
        "archive",
        ["--archives", f"{archive}#environment"],
        spark_pyspark_driver_python=str(shop.python),
        spark_pyspark_python="./environment/bin/python",
    )
    rows, (found,), left = sold
    assert (TOTALS, True, []) == (rows, "/environment/lib/python" in found, left)


def test_a_job_that_ships_nothing_ends_before_it_starts(shop):
    """One sentence instead of a stack trace of Spark that ends with `No module named`."""
    said = shop.sell("nothing", [], spark_pyspark_driver_python=str(shop.python))
    assert (
        f"SparkSetupError: the workers need pyflinklike, got a Python without it, '{shop.cluster.python}'"
        in (said)
    )


SCRIPT = """
import sys

from pyflinklike.run import install

install()
sys.path.insert(0, sys.argv[1])
from parts.sums import added, first
from pyflink.common import Configuration, Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.configure(Configuration.from_dict({"execution.target": "spark"}))
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.add_python_file(sys.argv[1])
sums = env.from_collection([("a", 1), ("b", 5), ("a", 3)]).key_by(first).reduce(added)
sums.map(lambda pair: f"{pair[0]}={pair[1]}", Types.STRING()).print()
env.execute()
"""
GREETING = """
def greeted(pair):
    from greetings_of_a_test import greet
    return greet(pair[0]), pair[1]
"""
PARTS = {
    "__init__.py": "",
    "names.py": "from pyflink.common import Row\n",
    "sums.py": """
from pyflink.datastream.functions import MapFunction
from .names import Row

def first(pair):
    return pair[0]

def added(one, other):
    return one[0], one[1] + other[1]
""",
}


def test_a_job_of_modules_that_import_pyflink_runs_on_the_nodes(shop):
    """Each of which gets the folder by add_python_file, and the finder with what is the user's."""
    project = shop.root / "project"
    (project / "parts").mkdir(parents=True)
    for name, text in PARTS.items():
        (project / "parts" / name).write_text(text)
    script = shop.root / "job_of_modules.py"
    script.write_text(SCRIPT)
    driver = shop.root / "of_modules"
    driver.mkdir()
    done = shop.cluster.submit(["--py-files", shop.zip, str(script), str(project)], driver)
    printed = {line.rpartition("> ")[2] for line in done.stdout.splitlines() if "=" in line}
    assert {"a=4", "b=5"} == printed, done.stdout[-2_000:] + done.stderr[-4_000:]


def test_a_package_of_a_requirements_file_reaches_the_nodes(shop):
    """Beside the modules of the job; neither the driver nor a node has it."""
    project, cache = shop.root / "with_requirements", shop.root / "cache"
    write_wheel(cache, "greetings_of_a_test", "def greet(name):\n    return 'hello ' + name\n")
    (project / "parts").mkdir(parents=True)
    for name, text in {**PARTS, "greeting.py": GREETING}.items():
        (project / "parts" / name).write_text(text)
    (project / "requirements.txt").write_text("greetings_of_a_test\n")
    script = shop.root / "job_with_requirements.py"
    declared = f'env.set_python_requirements(sys.argv[1] + "/requirements.txt", {str(cache)!r})'
    script.write_text(
        SCRIPT.replace("from parts.sums", "from parts.greeting import greeted\nfrom parts.sums")
        .replace("sums = ", f"{declared}\nsums = ")
        .replace("sums.map(", "sums.map(greeted, Types.TUPLE([Types.STRING(), Types.LONG()])).map(")
    )
    driver = shop.root / "of_requirements"
    driver.mkdir()
    done = shop.cluster.submit(["--py-files", shop.zip, str(script), str(project)], driver)
    printed = {line.rpartition("> ")[2] for line in done.stdout.splitlines() if "=" in line}
    assert {"hello a=4", "hello b=5"} == printed, done.stdout[-2_000:] + done.stderr[-4_000:]
