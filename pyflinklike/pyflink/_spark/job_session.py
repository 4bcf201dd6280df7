# SPDX-License-Identifier: Apache-2.0
"""The session of a job on Spark: what it is prepared with, and which jobs it can run.

If Spark cannot run a step of a job, the job is refused when it starts, and the error names the step.
"""

from __future__ import annotations

import atexit
import io
import shutil
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.nodes import (
    FromSource,
    KeyBy,
    KeyedFold,
    Node,
    Partition,
    Partitioning,
    ToSink,
)
from pyflinklike.pyflink._graph.sources import HybridSource, Source
from pyflinklike.pyflink._spark.data_frame_source import frame_source
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.stages import (
    PythonStage,
    find_watermark_makers,
    has_processing_timers,
    is_keyed,
    needs_ticks,
    stages_of,
)
from pyflinklike.pyflink._spark.stream_sources import last_frame_source
from pyflinklike.pyflink._spark.watermark_feed import has_idleness
from pyflinklike.spark._plan.process_options import check_backend
from pyflinklike.spark._plan.session import (
    HAS_TRANSFORM_WITH_STATE,
    check_watermark_policy,
    max_parallelism_for,
    partitions_of,
    prepare_workers,
    time_zone_of,
)
from pyflinklike.state_processor._folders.folder_paths import local_path


def prepare_session(job: Job) -> SparkSession:
    """Return the session for a job, and ship the job's files to its workers.

    Raises:
        SparkSetupError: The job cannot run on Spark, or the session is one of Spark Connect.
    """
    refuse_what_is_missing(job)
    _warn_of_timers(job)
    if is_remote():
        msg = (
            "jobs of the DataStream API need a classic session on Spark, got one of Spark Connect; "
            "submit the program to the cluster, or set execution.target to local"
        )
        raise SparkSetupError(msg)
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if not job.settings.is_batch and len(list(job.graph.of_kind(FromSource))) > 1:
        check_watermark_policy(spark)
    _ship_files(spark, job.settings.python_files)
    prepare_workers(spark)
    return spark


def steps_of(job: Job, spark: SparkSession) -> JobSteps:
    """Return the steps of a job for a session."""
    return JobSteps(job, facts_of(spark, job.settings), backend_of(job))


_PARTITIONS = "spark.sql.shuffle.partitions"


def facts_of(spark: SparkSession, settings: JobSettings) -> SessionFacts:
    """Return the facts of a session; if the job sets a parallelism, it counts."""
    partitions = settings.parallelism or partitions_of(spark)
    return SessionFacts(partitions, max_parallelism_for(partitions), time_zone_of(spark))


@contextmanager
def with_partitions(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Set the number of tasks after a shuffle, for queries that start within the block."""
    # Spark reads the setting when a query starts, and stores it in a new checkpoint.
    former = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, str(partitions))
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, former or "")


def backend_of(job: Job) -> StateBackend:
    """Return the state backend of a job."""
    return check_backend(job.settings.state_backend or HashMapStateBackend())


# Files of the program


def _ship_files(spark: SparkSession, paths: Iterable[str]) -> None:
    """Let workers import from files and folders of the program.

    Args:
        spark: The session; it must be a classic one.
        paths: Modules, archives and folders of modules.  A folder is shipped as an archive, because
            Spark puts no folder on a path.

    Raises:
        DeclarationValueError: There is no file at a path, or a folder for a cluster has compiled
            modules, which cannot be imported from an archive.
    """
    for path in paths:
        local = Path(local_path(path))
        if local.is_dir():
            compiled = next((each for each in local.rglob("*") if each.suffix in _COMPILED), None)
            if compiled is not None and not str(spark.sparkContext.master).startswith("local"):
                msg = (
                    "the nodes of a cluster import only modules in Python from an archive, got the "
                    f"compiled {compiled.relative_to(local).as_posix()!r} in {str(local)!r}; "
                    "install its package on the nodes, or ship an environment with spark.archives"
                )
                raise DeclarationValueError(msg)
            spark.sparkContext.addPyFile(_archive_of(local))
        elif local.exists() or "://" in path:
            spark.sparkContext.addPyFile(path)
        else:
            msg = (
                f"add_python_file takes a file or folder that exists, got {path!r}; a relative path "
                f"begins at {str(Path.cwd())!r}"
            )
            raise DeclarationValueError(msg)


_COMPILED = frozenset({".so", ".pyd"})


def _archive_of(folder: Path) -> str:
    """Zip a folder's modules; a checksum in the name lets Spark take a changed folder again."""
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    kept = [each for each in files if "__pycache__" not in each.parts]
    contents = io.BytesIO()
    with zipfile.ZipFile(contents, "w") as archive:
        for each in kept:
            member = zipfile.ZipInfo(each.relative_to(folder).as_posix())
            archive.writestr(member, each.read_bytes())
    place = Path(tempfile.mkdtemp(prefix="pyflinklike-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    path = place / f"{folder.resolve().name}-{zlib.crc32(contents.getvalue()):08x}.zip"
    path.write_bytes(contents.getvalue())
    return str(path)


# Jobs that cannot run


_REMEDY = "set execution.target to local"
_ON_ALL_WAYS = (
    "assign times and watermarks after the union of all ways, or before the first keyed operator; or set "
    "execution.target to local"
)
_AFTER_THE_OTHER = (
    "Spark begins to read all streams of a query at once, and only a KafkaSource can wait (PySpark 4.2): bound "
    "it, read a topic or new files last, or unite the sources with union if their order does not matter"
)


def refuse_what_is_missing(job: Job) -> None:
    """Check that Spark can run a job.

    Raises:
        SparkSetupError: The job has a step that this host does not run; the message names it.
    """
    for node, what, remedy in _find_missing(job):
        mode = "batch" if job.settings.is_batch else "streaming"
        msg = f"{what} of the DataStream API is not there on Spark yet in {mode} mode, got {node.name!r}; {remedy}"
        raise SparkSetupError(msg)
    if not job.settings.is_batch and not HAS_TRANSFORM_WITH_STATE:
        msg = (
            "jobs in streaming mode need PySpark 4 on Spark, got PySpark 3.5; set "
            f"execution.runtime-mode to BATCH, or {_REMEDY}"
        )
        raise SparkSetupError(msg)


def _warn_of_timers(job: Job) -> None:
    """Warn if a job may end before its processing-time timers fire."""
    graph = job.graph
    if not job.settings.is_batch and graph.is_bounded and has_processing_timers(graph):
        warnings.warn(
            "processing-time timers do not fire when the input of a job in streaming mode ends before their "
            "time, as in Flink, got a job that ends and may register some; set execution.runtime-mode to "
            "BATCH, where every timer fires at the end, or register event-time timers",
            stacklevel=2,
        )


def _find_missing(job: Job) -> Iterator[tuple[Node, str, str]]:
    """Yield the steps that this host does not run, each with a description and a remedy."""
    graph = job.graph
    makers = {} if job.settings.is_batch else find_watermark_makers(graph)
    for node in graph.nodes.values():
        if isinstance(node, FromSource) and _cannot_wait(node.source):
            yield node, "a HybridSource whose last source is a stream of Spark", _AFTER_THE_OTHER
        elif isinstance(node, FromSource) and not _is_read(node.source):
            yield node, f"an unbounded {type(node.source).__name__}", _REMEDY
        # The outputs of a fold do not depend on time.
        elif (
            is_keyed(node) and not isinstance(node, KeyedFold) and len(makers.get(node.id, ())) > 1
        ):
            what = "a watermark strategy between keyed operators, on one of several ways to another one,"
            yield node, what, _ON_ALL_WAYS
    for stage in stages_of(graph):
        for node in map(graph.nodes.__getitem__, sorted(stage.inner)):
            if isinstance(node, Partition) and node.is_seen:
                consumers = [each for each, _ in graph.consumers[node.id]]
                if not all(_is_in(stage, node, each) for each in consumers):
                    what = "a broadcast() or partition_custom() before what has keyed inputs"
                    yield node, what, _REMEDY


def _is_in(stage: PythonStage, node: Partition, consumer: Node) -> bool:
    """Return whether a task of the stage can give a consumer the elements of its partition."""
    if isinstance(consumer, KeyBy) and node.how is Partitioning.BROADCAST:
        return False  # the number of copies of each element is not known
    return isinstance(consumer, ToSink) or consumer.id in stage.inner


def _cannot_wait(source: Source) -> bool:
    """Return whether the last of several sources would begin with the query, not after the others."""
    if not isinstance(source, HybridSource) or source.is_bounded:
        return False
    if source.discovery_milliseconds is not None:
        return False
    last = last_frame_source(source)
    return last is None or last.wait_for_file(Path()) is None


def _is_read(source: Source) -> bool:
    is_looked_for = source.discovery_milliseconds is not None
    is_frame = (frame_source(source, is_streaming=True) or last_frame_source(source)) is not None
    return source.is_bounded or is_looked_for or is_frame


def refuse_work_of_the_driver(job: Job) -> None:
    """Check that a job needs no work of the driver while the user's own query runs it.

    Raises:
        SparkSetupError: It needs some.
    """
    for reason in _find_work_of_the_driver(job):
        msg = f"to_data_frame {reason}"
        raise SparkSetupError(msg)


def _find_work_of_the_driver(job: Job) -> Iterator[str]:
    for node in job.graph.of_kind(FromSource):
        if node.source.discovery_milliseconds is not None:
            yield (
                "takes sources that end and DataFrames, got one that looks for files, "
                f"{node.name!r}; read them with spark.readStream and from_data_frame, or execute the job"
            )
        if last_frame_source(node.source) is not None:
            yield (
                "cannot let the last of several sources begin, got a HybridSource that does not end, "
                f"{node.name!r}; execute the job, or unite its sources with union"
            )
    if needs_ticks(job.graph):
        yield (
            "lets Spark wake the query, by one of the two times only, got processing-time timers beside event "
            "times; leave out event times and watermark strategies, or execute the job with a sink"
        )
    if not job.graph.is_bounded and has_idleness(stages_of(job.graph)[0]):
        yield (
            "lets Spark make the watermark, which does not leave idle inputs out, got with_idleness; leave it "
            "out, or execute the job with a sink"
        )
