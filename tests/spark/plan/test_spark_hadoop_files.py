# SPDX-License-Identifier: Apache-2.0
"""Files on a file system of Hadoop: viewfs, which is another scheme over folders of this machine."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

from pyflinklike import KeyedProcessFunction
from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.spark import key_by
from pyflinklike.state_processor import Savepoint
from pyflinklike.state_processor._checkpoints.checkpoint import savepoint_location_in
from pyflinklike.state_processor._folders.folder_paths import read_json, remove_folder, write_json
from pyflinklike.state_processor._folders.hadoop_files import folder_path
from pyflinklike.state_processor._savepoints.savepoint_directory import open_savepoint


@pytest.fixture
def mounted(spark, tmp_path):
    """The address of a folder of its own."""
    name = re.sub(r"[\W_]", "", tmp_path.name)
    link = f"fs.viewfs.mounttable.{name}.link./jobs"
    spark.conf.set(link, tmp_path.as_uri())
    yield f"viewfs://{name}/jobs"
    spark.conf.unset(link)


@pytest.mark.spark
def test_files_of_a_folder(spark, mounted, tmp_path):
    """What is created is whole, and replaces nothing; records have versions; all of it can go."""
    folder = folder_path(spark, f"{mounted}/deep/")
    record, again = folder / "record.json", folder / "record.json"
    rows = folder / "rows" / "0000000000.parquet"

    missing = (folder.exists(), list(folder.iterdir()), read_json(record))
    time = rows.create(bytes(range(256)), newer_than=2_000_000_000_000)
    taken = rows.create(b"")
    for n in range(3):
        write_json(record, {"n": n})
    found = sorted(each.name for each in (tmp_path / "deep").iterdir() if each.name[0] != ".")

    assert (False, [], None) == missing
    assert (2_000_000_000_001, None) == (time, taken)
    assert bytes(range(256)) == rows.read_once()
    assert (["record.json.2", "rows"], {"n": 2}) == (found, read_json(again))
    assert (True, True, False) == (rows.exists(), rows.parent.is_dir(), rows.is_dir())
    assert folder.is_at(f"{mounted}/deep")
    remove_folder(folder)
    assert not (tmp_path / "deep").exists()


@pytest.mark.spark
def test_file_systems_that_cannot_be_used(spark, tmp_path):
    """With the remedy; a path without a scheme is on this machine."""
    with pytest.raises(
        SparkSetupError, match=r"S3AFileSystem not found; .* --packages .*hadoop-aws"
    ):
        folder_path(spark, "s3a://bucket/jobs")
    with pytest.raises(SparkSetupError, match=r'No FileSystem for scheme "nope"; .*fs\.nope\.impl'):
        folder_path(spark, "nope://bucket/jobs")
    with pytest.raises(SparkSetupError, match=r"'viewfs://nowhere/x': .*Empty Mount table"):
        folder_path(spark, "viewfs://nowhere/x")
    with pytest.raises(
        SparkSetupError, match=r"set spark\.hadoop\.fs\.AbstractFileSystem\.http\.impl"
    ):
        folder_path(spark, "http://localhost/jobs")

    assert tmp_path == folder_path(spark, str(tmp_path)) == folder_path(spark, tmp_path.as_uri())


@pytest.mark.spark
def test_a_savepoint_where_only_hadoop_is_at_home(spark, mounted, tmp_path):
    """Written, replaced, read and checked by the driver as on any filesystem of Arrow."""
    made = Savepoint.new(spark, "key int", "counts")
    made.write(f"{mounted}/saved")
    there, here = Savepoint.read(spark, f"{mounted}/saved"), open_savepoint(tmp_path / "saved")
    place = savepoint_location_in(spark, f"{mounted}/saved")
    beside = place.begin("overwrite")
    beside.finish(there.manifest)
    place.replace(beside)

    assert (["counts"], here.manifest) == (here.operators(), there.manifest)
    assert there.manifest == place.manifest()
    assert ["saved"] == [each.name for each in tmp_path.iterdir() if each.name[0] != "."]
    with pytest.raises(DeclarationValueError, match="must not exist before it is written"):
        made.write(f"{mounted}/saved")
    with pytest.raises(DeclarationValueError, match=r'No FileSystem for scheme "nope"'):
        made.write("nope://bucket/saved")


class Same(KeyedProcessFunction):
    """Gives out the key."""

    def process_element(self, value, ctx):
        yield (value.key,)


@pytest.mark.spark
def test_a_stream_begins_with_a_savepoint_where_only_hadoop_is_at_home(spark, mounted):
    """The driver looks into it more than once before Spark reads it."""
    Savepoint.new(spark, "key int", "counts").write(f"{mounted}/saved")
    keys = spark.readStream.format("rate").load().selectExpr("cast(value as int) key")
    begun = key_by(keys, "key").process(
        Same(), "key int", uid="counts", from_savepoint=f"{mounted}/saved"
    )
    assert begun.isStreaming
