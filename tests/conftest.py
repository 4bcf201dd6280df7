# SPDX-License-Identifier: Apache-2.0
"""What the tests share: one Spark session, and how hard Hypothesis tries."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from surroundings import (
    CHECKPOINT_FORMAT,
    REPOSITORY,
    SPARK_SETTINGS,
    TOO_BUSY,
    is_installed,
    spark_home,
)

# Before anything imports them: their asserts explain themselves as those of tests do.
pytest.register_assert_rewrite("pyflinklike.conformance", "agreement")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Only what can be imported is collected: most needs no PySpark.
collect_ignore_glob: list[str] = []
if not is_installed("pyspark"):
    collect_ignore_glob += [
        "spark/*",
        "faults/*",
        "cluster/*",
        "connect/*",
        "demo/test_spark_flights.py",
    ]
# Python data sources came with PySpark 4.0.
if not (is_installed("confluent_kafka") and is_installed("pyspark.sql.datasource")):
    collect_ignore_glob += ["kafka/*"]

# The simulator runs Spark's `transformWithState`, on both backends.
if not all(map(is_installed, ("greenlet", "rocksdict", "pyspark", "pyspark.sql.datasource"))):
    collect_ignore_glob += ["simulator/test_simulation.py", "simulator/test_programs.py"]
    collect_ignore_glob += ["simulator/test_ddl.py"]

# No deadline: a first call may compile, import or start a JVM, and CI has two busy cores.
# Everybody's run draws the same examples, and so does CI's: what a change did not break stays green.
settings.register_profile("default", deadline=None, max_examples=20, derandomize=True)
# For what is looked at beside the results, such as coverage: `scripts/coverage`.
settings.register_profile(
    "quick", deadline=None, max_examples=5, stateful_step_count=20, derandomize=True
)
# The night draws others; each failure that it finds becomes an explicit example.
settings.register_profile("explore", deadline=None, max_examples=50, print_blob=True)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2_000,
    stateful_step_count=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# What a module needs beside a local Spark, by the beginning of its name: the option that asks for
# it, and what it does.
ON_REQUEST = {
    "test_spark_faults_": ("--faults", "kill workers and drivers, damage segments and fill disks"),
    "test_cluster_": ("--cluster", "start Spark clusters on this machine, and kill executors"),
    "test_connect_": ("--connect", "start a Spark Connect server, and run on it what needs Spark"),
    "test_brokers_": ("--brokers", "start brokers and databases, and kill drivers that use them"),
    "test_jobs_": ("--jobs", "run whole jobs on Spark, over restarts or from the collection"),
    "test_promtool_": (
        "--promtool",
        "run Prometheus' promtool on the alerts of examples/dashboard/",
    ),
    "test_environments_": ("--environments", "install packages into empty environments"),
}

# What `--quick` leaves out beside all that needs a JVM: each takes seconds, and the whole suite has it.
SLOW = (
    "backends/test_rocksdb_conformance.py",
    "backends/test_rocksdb_damage.py",
    "backends/test_rocksdb_directory.py",
    "backends/test_rocksdb_load.py",
    "cdc/test_debezium_errors.py",
    "changelog/test_damaged_state.py",
    "changelog/test_log_size.py",
    "changelog/test_savepoint_changes.py",
    "cli/test_cli_savepoints.py",
    "cli/test_cli_serve.py",
    "faults/test_soak_verdict.py",
    "kafka/",
    "of_pyflink/datastream/test_jdbc_postgres.py",
    "of_pyflink/datastream/test_parquet.py",
    "of_pyflink/datastream/test_python_requirements.py",
    "of_pyflink/local/test_job_savepoints.py",
    "of_pyflink/run/",
    "queryable_state/test_http",
    "queryable_state/test_replica_key_types.py",
    "repo/",
    "retries/",
    "simulator/",
    "spark/host/test_carried.py",
    "spark/host/test_cycle_collector.py",
    "spark/host/test_daemon.py",
    "spark/host/test_keepers.py",
    "spark/host/test_sharing_processor.py",
    "spark/jobs/test_lines_",
    "spark/savepoint/test_history_law.py",
    "state_processor/savepoints/test_savepoint_directory.py",
    "testing/test_harness_disk.py",
    "testing/test_restarts.py",
    "testing/test_saved_programs.py",
    "upsert/test_upsert_postgres.py",
    "views/test_postgres_",
    "views/test_serving_view.py",
    "views/test_view_damage.py",
    "views/test_view_interrupted.py",
    "views/test_view_life.py",
    "views/test_view_model.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What takes long, or needs more than a local Spark, runs only on request."""
    for begins, (option, what) in ON_REQUEST.items():
        parser.addoption(option, action="store_true", help=f"also {what} ({begins}*)")
    parser.addoption(
        "--checkpoint-format",
        choices=("1", "2"),
        help="the format in which Spark writes checkpoints; by default the one Spark takes",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="only what needs no JVM and takes no seconds, with few examples of each law",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the format of checkpoints for every session, and for the drivers that tests start."""
    # Here, since modules of tests read the settings as they are imported.
    chosen = config.getoption("--checkpoint-format")
    if chosen is not None:
        SPARK_SETTINGS[CHECKPOINT_FORMAT] = chosen
    if config.getoption("--quick"):
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules whose flag was not given, and what `--quick` is to be without."""
    # Not skipped one by one: an import takes its time, too.
    name = collection_path.name
    if _lacks_flag(name, config):
        return True
    if not config.getoption("--quick"):
        return None
    place = collection_path.as_posix().partition(f"{REPOSITORY.as_posix()}/tests/")[2]
    return name.startswith("test_spark_") or f"{place}/".startswith(SLOW) or None


@pytest.hookimpl(tryfirst=True)  # before `-m "not spark"` is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses the `spark` fixture, directly or through another one; leave out what takes long."""
    left_out = [item for item in items if _is_left_out(item, config)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        without = set(left_out)
        items[:] = [item for item in items if item not in without]
    for item in items:
        classic = item.get_closest_marker("classic")
        if classic is not None and config.getoption("--connect"):
            item.add_marker(pytest.mark.skip(reason=classic.kwargs["reason"]))
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def _lacks_flag(module: str, config: pytest.Config) -> bool:
    return any(
        module.startswith(begins) and not config.getoption(option)
        for begins, (option, _) in ON_REQUEST.items()
    )


def _is_left_out(item: pytest.Item, config: pytest.Config) -> bool:
    """Whether this needs a flag or a profile that was not given, or a JVM with `--quick`."""
    if _lacks_flag(item.path.name, config):
        return True
    if item.get_closest_marker("thorough") and os.environ.get("HYPOTHESIS_PROFILE") != "thorough":
        # On another PySpark, or over Connect, those that tell most run however long they take.
        is_asked_for = "telling" in config.option.markexpr and item.get_closest_marker("telling")
        return not is_asked_for
    return config.getoption("--quick") and "spark" in getattr(item, "fixturenames", ())


def pytest_report_header(config: pytest.Config) -> str:
    """What this run leaves out, and how to ask for it."""
    options = [option for option, _ in ON_REQUEST.values() if not config.getoption(option)]
    return f"left out unless asked for (tests/README.md): {' '.join(options)}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `loadgroup` divide whole files, and give one process all of Spark's, which starts slowly."""
    # xdist 3.8 writes a group into the name of a test, which pytest 9.2 does not let it change.
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "spark" if "/test_spark_" in file else file

    return ByFile(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test again whose worker had no time to start, and say so: the machine did too much else."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for is_last in (False, False, True):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if is_last or not any(each.failed and TOO_BUSY in each.longreprtext for each in reports):
            break
        item.warn(pytest.PytestWarning(f"{item.nodeid} was run again: {TOO_BUSY}"))
        item._initrequest()  # type: ignore[attr-defined]
        for definitions in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
            made = definitions[-1].cached_result
            if made is not None and made[2] is not None:  # a fixture that failed is made anew
                definitions[-1].finish(item._request)  # type: ignore[attr-defined]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A local Spark with two cores, its workers running this interpreter and this checkout.

    With `--connect` it is a session of a Spark Connect server of its own, with the same settings.
    """
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    if request.config.getoption("--connect"):
        yield from _connect_session(tmp_path_factory)
        return
    from demo.java_check import check_java
    from pyspark.sql import SparkSession

    from pyflinklike.errors import SparkSetupError

    try:
        check_java()
    except SparkSetupError as missing:
        pytest.skip(str(missing))

    python_path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_HOME", str(spark_home(tmp_path_factory.mktemp("spark") / "home")))
        # collect() shows timestamps in the driver's own time zone, not in the session's.
        patch.setenv("TZ", "UTC")
        time.tzset()
        builder = SparkSession.builder.master("local[2]").appName("pyflinklike tests")
        directory = tmp_path_factory.mktemp("warehouse")
        session = (
            builder.config(map=SPARK_SETTINGS)
            .config("spark.sql.warehouse.dir", str(directory))
            .getOrCreate()
        )
        yield session
        session.stop()
    time.tzset()


def _connect_session(directories: pytest.TempPathFactory) -> Iterator[Any]:
    from connect_server import connect_server

    directory = directories.mktemp("connect")
    python_path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    environment = {"PYTHONPATH": python_path, "TZ": "UTC"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        settings = {
            **SPARK_SETTINGS,
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }
        with connect_server(settings, directory, environment=environment) as server:
            patch.setenv("SPARK_REMOTE", server.url)  # for tests that take another session
            session = server.session()
            yield session
            session.stop()
    time.tzset()


@pytest.fixture
def shipped_module(spark, request):
    """The functions of the test's module go to workers by value, which cannot import it; gives the session."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield spark
    cloudpickle.unregister_pickle_by_value(request.module)
