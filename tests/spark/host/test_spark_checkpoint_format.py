# SPDX-License-Identifier: Apache-2.0
"""Spark's two formats of a checkpoint: a query runs, restarts and is read under either.

`--checkpoint-format` gives the format of all other tests; here it is set, and changed.
"""

from __future__ import annotations

import contextlib
import threading

import pyspark
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from spark_support import Feed, drain, pickle_by_value, reads_state, rows_of
from surroundings import CHECKPOINT_FORMAT

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.errors import SparkSetupError
from pyflinklike.queryable_state import QueryableState
from pyflinklike.spark import key_by
from pyflinklike.state_processor import read_state, read_state_changes
from pyflinklike.state_processor._checkpoints.checkpoint import refuse_errors

pytestmark = [
    reads_state,
    pytest.mark.classic(reason="a session of Spark Connect must have the format of what it reads"),
]
pickle_by_value(__name__)

SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))
USERS = [f"u{number}" for number in range(8)]
OTHER = {"1": "2", "2": "1"}


class Sum(KeyedProcessFunction):
    """The sum per key."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value.n)
        yield value.user, self.sum.value()


def summed(feed):
    """The stream of one operator."""
    return key_by(feed.stream(), "user").process(
        Sum(), "user string, n long", uid="sum", max_parallelism=2
    )


def batch(n):
    """A record of each user."""
    return [(user, n) for user in USERS]


@contextlib.contextmanager
def checkpoint_format(spark, version):
    """The session has this format meanwhile."""
    before = spark.conf.get(CHECKPOINT_FORMAT, None)
    spark.conf.set(CHECKPOINT_FORMAT, version)
    try:
        yield
        assert version == spark.conf.get(CHECKPOINT_FORMAT)
    finally:
        if before is None:
            spark.conf.unset(CHECKPOINT_FORMAT)
        else:
            spark.conf.set(CHECKPOINT_FORMAT, before)


@pytest.fixture
def feed(spark, tmp_path):
    """Two micro-batches."""
    made = Feed(spark, tmp_path / "feed", "user string, n long")
    made.add(batch(1), batch(10))
    return made


def formats_of(checkpoint):
    """What each commit says of its format, and which kinds of files the first partition has."""
    commits = sorted(each for each in (checkpoint / "commits").iterdir() if each.name.isdigit())
    names = [each.name for each in (checkpoint / "state" / "0" / "0").iterdir()]
    changelogs = [name for name in names if ".changelog" in name and name[0] != "."]
    return (
        {each.read_text()[:2] for each in commits},
        {"_" in name for name in changelogs},
        {name.endswith(".crc") for name in changelogs},
    )


def everything(spark, checkpoint):
    """What the readers of state say of a checkpoint."""
    with QueryableState.open(spark, checkpoint, refresh=None) as replica:
        got = replica["sum"].get("u7")
    return (
        got,
        {row.user: row.value for row in read_state(spark, checkpoint, "sum").collect()},
        {row.value for row in read_state_changes(spark, checkpoint, "sum", 1).collect()},
    )


@pytest.mark.telling
@pytest.mark.skipif(SPARK < (4, 2), reason="Spark reads only the session's format")
@pytest.mark.thorough
@pytest.mark.parametrize("written", ["1", "2"])
def test_a_checkpoint_is_read_in_a_session_of_the_other_format(spark, feed, tmp_path, written):
    """The checkpoint says its format; Spark's own reader goes by that of the session."""
    checkpoint = tmp_path / "c"
    with checkpoint_format(spark, written):
        drain(summed(feed), checkpoint)
    with checkpoint_format(spark, OTHER[written]):
        assert (11, dict.fromkeys(USERS, 11), {11}) == everything(spark, checkpoint)
    assert ({f"v{written}"}, {written == "2"}) == formats_of(checkpoint)[:2]
    assert (True in formats_of(checkpoint)[2]) == (written == "2")


@pytest.mark.thorough
@pytest.mark.skipif(SPARK < (4, 2), reason="Spark reads only the session's format")
def test_the_setting_of_the_session_is_left_alone_while_the_other_format_is_read(
    spark, feed, tmp_path
):
    """A query that another thread starts at that moment would take it."""
    checkpoint, seen, done = tmp_path / "c", set(), threading.Event()
    with checkpoint_format(spark, "2"):
        drain(summed(feed), checkpoint)

    def watch():
        while not done.is_set():
            seen.add(spark.conf.get(CHECKPOINT_FORMAT))

    with checkpoint_format(spark, "1"):
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            frame = read_state(spark, checkpoint, "sum")
            got = {row.value for row in frame.collect()}
        finally:
            done.set()
            watcher.join()
    assert ({11}, {"1"}, True) == (got, seen, frame.sparkSession is spark)


@pytest.mark.telling
@pytest.mark.skipif(SPARK >= (4, 1), reason="Spark reads state of format 2")
def test_spark_4_0_cannot_read_state_of_format_2(spark, feed, tmp_path):
    """Whatever the session has: the error says so."""
    with checkpoint_format(spark, "2"):
        drain(summed(feed), tmp_path / "c")
        with pytest.raises(SparkSetupError, match=r"Spark 4\.0 cannot read state of format 2"):
            read_state(spark, tmp_path / "c", "sum")


@pytest.mark.telling
@pytest.mark.skipif(SPARK >= (4, 2), reason="Spark reads either format")
@pytest.mark.parametrize("written", ["1", "2"] if SPARK >= (4, 1) else ["1"])
def test_an_older_spark_names_the_format_that_it_must_have(spark, feed, tmp_path, written):
    """In which it then reads the checkpoint."""
    checkpoint = tmp_path / "c"
    with checkpoint_format(spark, written):
        drain(summed(feed), checkpoint)
        assert (11, dict.fromkeys(USERS, 11), {11}) == everything(spark, checkpoint)
    remedy = rf'checkpointFormatVersion", "{written}"\)'
    with checkpoint_format(spark, OTHER[written]), pytest.raises(SparkSetupError, match=remedy):
        everything(spark, checkpoint)


@pytest.mark.skipif(SPARK >= (4, 3), reason="Spark keeps the format of a checkpoint from 4.3 on")
@pytest.mark.parametrize("first", ["1", "2"])
def test_a_query_restarted_in_the_other_format_is_refused_and_goes_on_in_its_own(
    spark, feed, tmp_path, first
):
    """In Spark's own words, of which the page of settings has the translation."""
    checkpoint = tmp_path / "c"
    with checkpoint_format(spark, first):
        drain(summed(feed), checkpoint)
    feed.add(batch(100))
    with (
        checkpoint_format(spark, OTHER[first]),
        pytest.raises(
            StreamingQueryException, match=r"(?s)CANNOT_COMMIT|NumberFormatException|log version"
        ),
    ):
        drain(summed(feed), checkpoint)
    with checkpoint_format(spark, first):
        assert {111} == {row[1] for row in rows_of(drain(summed(feed), checkpoint))}


@pytest.mark.thorough
@pytest.mark.skipif(SPARK < (4, 1), reason="Spark has checksums of its own from 4.1 on")
def test_a_bit_flipped_in_a_file_of_the_second_format_is_refused(spark, feed, tmp_path):
    """By Spark's own checksum, whatever Hadoop's files say: the tests leave those out."""
    checkpoint = tmp_path / "c"
    with checkpoint_format(spark, "2"):
        drain(summed(feed), checkpoint)
    (damaged,) = (checkpoint / "state" / "0" / "0").glob("2_*.changelog")
    written = bytearray(damaged.read_bytes())
    written[-1] ^= 1
    damaged.write_bytes(written)
    with pytest.raises(SparkSetupError, match=r"(?i)checksum.*2_"):
        read_state(spark, checkpoint, "sum").collect()


def test_the_refusal_of_spark_4_1_names_the_setting():
    """There a session reads only checkpoints of its own format."""
    said = "The only supported log version is v1, but encountered v2."
    with (
        pytest.raises(SparkSetupError, match=f'conf.set\\("{CHECKPOINT_FORMAT}", "2"\\)'),
        refuse_errors("tested"),
    ):
        raise AnalysisException(f"[INVALID_LOG_VERSION.EXACT_MATCH_VERSION] {said}")
