# SPDX-License-Identifier: Apache-2.0
"""Files of rows, written and read by jobs on the local runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from local_support import local

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.files import FileFormat
from pyflinklike.pyflink.common import Types, WatermarkStrategy
from pyflinklike.pyflink.datastream.connectors import BucketAssigner, FileSink, FileSource

__all__ = ["flips_of", "read_files", "source_of", "write_files"]


def source_of(file_format: FileFormat, *paths: object) -> FileSource:
    """A source of files that are there.

    Args:
        file_format: Their format.
        paths: Files and folders.
    """
    return FileSource(tuple(map(str, paths)), file_format)


def read_files(file_format: FileFormat, *paths: object) -> list[Any]:
    """The elements of files.

    Args:
        file_format: Their format.
        paths: Files and folders.
    """
    source, none = source_of(file_format, *paths), WatermarkStrategy.no_watermarks()
    return list(local().from_source(source, none, "files").execute_and_collect())


def write_files(folder: Path, factory: Any, elements: list[Any]) -> list[Path]:
    """The files that a job writes of elements.

    Args:
        folder: A folder.
        factory: Makes the writers of the files.
        elements: Of any type.
    """
    env = local()
    builder = FileSink.for_bulk_format(str(folder), factory)
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    env.from_collection(elements, Types.PICKLED_BYTE_ARRAY()).sink_to(sink)
    env.execute()
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flips_of(
    file_format: FileFormat, path: Path, places: Iterable[int], told: Callable[[Any], Any] = str
) -> set[Any]:
    """What is read where a bit of a file is another one; None for an error that names the file."""
    whole, damaged, found = path.read_bytes(), path.with_name("damaged"), set()
    for place in places:
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        damaged.write_bytes(changed)
        try:
            found.add(told(list(file_format.read(damaged))))
        except SparkSetupError as error:
            found.add(None if str(damaged) in str(error) else str(error))
    return found
