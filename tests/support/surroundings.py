# SPDX-License-Identifier: Apache-2.0
"""Where the tests run: the repository, what is installed, and the settings of their Spark session."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def is_installed(module: str) -> bool:
    """Whether a module can be imported, and all it is in."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def spark_home(folder: Path) -> Path:
    """A home of Spark in a new folder, whose Python processes import PySpark as this one does.

    The home in PySpark's package has it once more, as a zip without bytecode: every worker, and the
    process that each start of a stream asks for its states, would compile it.  That would be half of
    the time of most queries here.
    """
    [installed] = importlib.import_module("pyspark").__path__
    folder.mkdir()
    for each in ("bin", "data", "jars", "sbin"):
        (folder / each).symlink_to(Path(installed, each))
    return folder


TOO_BUSY = "Python worker failed to connect back"
"""What Spark says where a worker takes more than ten seconds to start, a limit that is no setting."""

CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SPARK_SETTINGS: dict[str, Any] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Driver, JVM and workers wait so long for each other, not 15 s: a machine may have much to do.
    "spark.python.authenticate.socketTimeout": "240s",
    # As the JVM of a run of minutes: else much of it goes into compiling what it runs a few times.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Without Hadoop's native library its checksum files start processes, as others of a checkpoint do.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
# On PySpark 3.5 Spark's own default: there the JVM crashes where a task is stopped while the writer
# to its Python worker still reads RocksDB.
if is_installed("pyspark.sql.datasource"):  # 4.0 and newer
    SPARK_SETTINGS |= {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
