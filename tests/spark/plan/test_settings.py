# SPDX-License-Identifier: Apache-2.0
"""Sessions that show and change only some of their settings, as serverless platforms have them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pyspark
import pytest
from pyspark.errors import AnalysisException

from pyflinklike.errors import SparkSetupError
from pyflinklike.spark._plan import session as settings
from pyflinklike.spark._plan.session import (
    note_checkpoint_format,
    note_daemon,
    partitions_of,
    prepare_session,
    slots_of,
)

PACKAGE = "org.apache.spark.sql.execution.streaming.state"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = f"{PACKAGE}.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


class Conf:
    """Spark's `RuntimeConfig`, of which some names are hidden and some fixed."""

    def __init__(self, values=None, hidden=(), fixed=()):
        self.values = {PARTITIONS: "200", **(values or {})}
        self.hidden, self.fixed = hidden, fixed

    def get(self, name, *default):
        if name in self.hidden:
            raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] {name}")
        return self.values.get(name, *default)

    def set(self, name, value):
        if name in self.fixed:
            raise AnalysisException(f"[CANNOT_MODIFY_CONFIG] {name}")
        self.values[name] = value


def session(*args, **named):
    """A session with such settings."""
    return SimpleNamespace(conf=Conf(*args, **named))


BOTH = (PROVIDER, CHANGELOG)
RIGHT = {PROVIDER: ROCKSDB, CHANGELOG: "true"}


def test_settings_that_are_right_need_not_be_set():
    """A session that refuses every change serves as well."""
    spark = session(RIGHT, fixed=BOTH)
    prepare_session(spark)

    assert {PARTITIONS: "200", **RIGHT} == spark.conf.values


def test_settings_that_cannot_be_read_are_set_all_the_same():
    """Hidden is not fixed."""
    spark = session(hidden=BOTH)
    prepare_session(spark)

    assert {PARTITIONS: "200", **RIGHT} == spark.conf.values


def test_settings_that_can_neither_be_read_nor_set_are_trusted():
    """They may be right, and Spark refuses the stream if its provider is not."""
    spark = session(hidden=BOTH, fixed=BOTH)
    prepare_session(spark)

    assert {PARTITIONS: "200"} == spark.conf.values


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, f'--conf "{PROVIDER}={ROCKSDB}" --conf "{CHANGELOG}=true"'),
        ({PROVIDER: ROCKSDB}, f'with --conf "{CHANGELOG}=true"'),
        ({CHANGELOG: "true"}, f'with --conf "{PROVIDER}={ROCKSDB}"'),
        ({PROVIDER: f"{PACKAGE}.HDFSBackedStateStoreProvider"}, f'"{PROVIDER}={ROCKSDB}" --conf'),
    ],
)
def test_all_settings_that_are_needed_are_in_one_message(values, wanted):
    """So that a cluster is started anew once, and not for each of them."""
    with pytest.raises(SparkSetupError, match=re.escape(wanted)):
        prepare_session(session(values, fixed=BOTH))


@pytest.mark.parametrize("room", ["streaming", "streaming.checkpointing"])
def test_a_manager_that_does_not_replace_files_is_refused(room):
    """Spark takes its silence for success."""
    manager = f"org.apache.spark.sql.execution.{room}.FileSystemBasedCheckpointFileManager"
    with pytest.raises(SparkSetupError, match=re.escape(f'unset("{MANAGER}")')):
        prepare_session(session({MANAGER: manager, **RIGHT}))


def test_other_managers_are_the_users_choice():
    """Spark's own by FileContext, and those of object stores."""
    spark = session({MANAGER: "org.example.ObjectStoreFileManager", **RIGHT})
    prepare_session(spark)

    assert "org.example.ObjectStoreFileManager" == spark.conf.values[MANAGER]


def test_partitions_that_cannot_be_read_are_the_platforms_choice():
    """As where the setting is "auto"."""
    hidden, auto = session(hidden=[PARTITIONS]), session({PARTITIONS: "auto"})

    assert (1, 1, 200) == (partitions_of(hidden), partitions_of(auto), partitions_of(session()))


@pytest.fixture
def noted(caplog):
    """What is noted of the format of checkpoints, by the sessions that follow."""
    settings._note_format.cache_clear()
    caplog.set_level("INFO", logger="pyflinklike.spark")
    return caplog


keeps_formats = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3),
    reason="before 4.3 Spark refuses a checkpoint of the other format at a restart",
)


@keeps_formats
def test_a_session_that_chose_no_checkpoint_format_is_told_once(noted):
    """With both ways out; the first of two streams is enough."""
    note_checkpoint_format(session())
    note_checkpoint_format(session())

    assert [f'spark.conf.set("{FORMAT}", "2") before the first start, or "1"'] == [
        record.getMessage().partition("call ")[2].partition(" to keep")[0]
        for record in noted.records
    ]


@pytest.mark.parametrize(
    "chosen", [session({FORMAT: "1"}), session({FORMAT: "2"}), session(hidden=[FORMAT])]
)
def test_a_checkpoint_format_that_was_chosen_or_is_hidden_is_not_spoken_of(noted, chosen):
    """The first one may be meant: other programs may have to read the checkpoint."""
    note_checkpoint_format(chosen)

    assert [] == noted.records


@pytest.mark.parametrize("daemon", [None, "pyflinklike.spark.daemon"])
def test_a_session_with_sparks_own_daemon_is_told_once(caplog, daemon):
    """And one that names a daemon is not."""
    settings._note_daemon.cache_clear()
    caplog.set_level("INFO", logger="pyflinklike.spark")
    conf = {} if daemon is None else {"spark.python.daemon.module": daemon}
    context = SimpleNamespace(getConf=lambda: SimpleNamespace(contains=conf.__contains__))
    spark = SimpleNamespace(sparkContext=context)

    note_daemon(spark)
    note_daemon(spark)

    told = [each for each in caplog.records if "pyflinklike.spark.daemon" in each.getMessage()]
    assert len(told) == (daemon is None)


@pytest.mark.parametrize(
    ("master", "conf", "slots"),
    [
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[4,2]", {}, 4),
        ("spark://host:7077", {"spark.executor.cores": "6", "spark.task.cpus": "2"}, 3),
        ("yarn", {}, 0),
    ],
)
def test_slots_of_an_executor(master, conf, slots):
    """They are known for a local master, and if the session names an executor's cores."""
    context = SimpleNamespace(master=master, getConf=lambda: SimpleNamespace(get=conf.get))

    assert slots == slots_of(SimpleNamespace(sparkContext=context))
