# SPDX-License-Identifier: Apache-2.0
"""Lines of text files as a sink: PyFlink's `FileSink`.

A file is written under a hidden name, which sources leave out.  It is renamed when its job or its
micro-batch ends well.
"""

from __future__ import annotations

import glob
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn

import attrs

from pyflinklike.clock import wall_clock
from pyflinklike.errors import DeclarationTypeError, HostError
from pyflinklike.graph.file_layout import BucketAssigner, OutputFileConfig, RollingPolicy
from pyflinklike.graph.file_source import local_path
from pyflinklike.graph.java_text import java_text
from pyflinklike.graph.sinks import Renaming, Sink, SinkWriter
from pyflinklike.shown import shown
from pyflinklike.types import PickledByteArrayTypeInfo, TypeInformation

__all__ = [
    "Encoder",
    "FileSink",
    "FileSinkBuilder",
]


@attrs.frozen
class Encoder:
    """The conversion of an element to bytes, as `pyflink.common.Encoder`.

    Args:
        charset_name: The encoding of the text.
    """

    charset_name: str

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Make a line for each element, with the text that Java has for it.

        Args:
            charset_name: The encoding of the text, by a name that Python knows.
        """
        return Encoder(charset_name)


@attrs.frozen
class FileSink(Sink):
    """Writes lines to files, as PyFlink's; by default into a folder for each hour.

    Args:
        base_path: The folder, or its `file:` address.
        encoder: Makes lines.
        file_config: The names of files.
        rolling_policy: The rule for beginning another file.
        bucket_assigner: Chooses the folder of a line.
        clock: Returns the processing time in ms.
    """

    base_path: str
    encoder: Encoder
    file_config: OutputFileConfig = attrs.field(factory=OutputFileConfig)
    rolling_policy: RollingPolicy = attrs.field(factory=RollingPolicy.default_rolling_policy)
    bucket_assigner: BucketAssigner = attrs.field(factory=BucketAssigner.date_time_bucket_assigner)
    clock: Callable[[], int] = wall_clock

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSinkBuilder:
        """Begin a sink that writes a line for each element.

        Args:
            base_path: The folder, or its `file:` address.
            encoder: The result of `Encoder.simple_string_encoder()`.

        Raises:
            DeclarationTypeError: `encoder` is no `Encoder`.
        """
        if not isinstance(encoder, Encoder):
            msg = f"it takes an Encoder, got {shown(encoder)}; give Encoder.simple_string_encoder()"
            raise DeclarationTypeError(msg)
        return FileSinkBuilder(FileSink(str(base_path), encoder))

    @staticmethod
    def for_bulk_format(*_: Any) -> NoReturn:
        """Refuse files of columns: Spark writes them.

        Raises:
            HostError: Always.
        """
        msg = "files of columns (Parquet, ORC, Avro) and CSV are written by Spark, got for_bulk_format; use a DataFrame's writer"
        raise HostError(msg)

    @property
    def is_written_by_tasks(self) -> bool:
        """True: tasks write the lines."""
        return True

    def remove_unfinished(self, name: str) -> None:
        """Remove hidden files of writers whose names begin with `name`."""
        begin = glob.escape(f".{self.file_config.part_prefix}-{name}")
        for hidden in local_path(self.base_path).rglob(f"{begin}*.inprogress.*"):
            hidden.unlink(missing_ok=True)

    def writer(
        self,
        index: int,  # noqa: ARG002  each instance has a name of its own
        parallelism: int,  # noqa: ARG002
        type_info: TypeInformation,
        name: str | None = None,
    ) -> SinkWriter:
        """Make the writer of the lines of one instance."""
        return _FileWriter(self, type_info, name or str(uuid.uuid4()))


@attrs.define
class FileSinkBuilder:
    """Sets how files are written, and `build`s the sink."""

    _sink: FileSink

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSinkBuilder:
        """Set the names of files.

        Args:
            output_file_config: A configuration made by `OutputFileConfig.builder()`.
        """
        return self._with(file_config=output_file_config)

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSinkBuilder:
        """Set the rule for beginning another file.

        Args:
            rolling_policy: A policy made by a static method of `RollingPolicy`.
        """
        return self._with(rolling_policy=rolling_policy)

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> FileSinkBuilder:
        """Set the folders.

        Args:
            bucket_assigner: An assigner made by a static method of `BucketAssigner`.
        """
        return self._with(bucket_assigner=bucket_assigner)

    def with_bucket_check_interval(self, interval: int) -> FileSinkBuilder:  # noqa: ARG002
        """Do nothing: times end no file here."""
        return self

    def disable_compact(self) -> FileSinkBuilder:
        """Do nothing: small files are not put together here."""
        return self

    def build(self) -> FileSink:
        """Make the sink."""
        return self._sink

    def _with(self, **changes: Any) -> FileSinkBuilder:
        self._sink = attrs.evolve(self._sink, **changes)
        return self


@attrs.define
class _Part:
    """A file that is being written."""

    file: IO[bytes]
    hidden: Path
    path: Path
    size: int = 0


class _FileWriter:
    def __init__(self, sink: FileSink, type_info: TypeInformation, name: str) -> None:
        self._sink, self._type_info = sink, type_info
        self._folder, self._name = local_path(sink.base_path).absolute(), name
        self._open: dict[str, _Part] = {}
        self._written: list[_Part] = []
        is_text = isinstance(type_info, PickledByteArrayTypeInfo)
        self._text = str if is_text else lambda value: java_text(value, type_info)

    def write(self, value: Any, _: int | None) -> None:
        bucket = self._sink.bucket_assigner.bucket(self._sink.clock())
        part = self._open.get(bucket) or self._begun(bucket)
        line = f"{self._text(value)}\n".encode(self._sink.encoder.charset_name)
        part.file.write(line)
        part.size += len(line)
        limit = self._sink.rolling_policy.part_size
        if limit is not None and part.size >= limit:
            _ended(self._open.pop(bucket).file)

    def prepare(self) -> list[Renaming]:
        self._close()
        return [Renaming(part.hidden, part.path) for part in self._written]

    def finish(self) -> None:
        for renaming in self.prepare():
            renaming.perform()

    def abandon(self) -> None:
        self._close()
        for part in self._written:
            part.hidden.unlink(missing_ok=True)

    def _close(self) -> None:
        for part in self._open.values():
            _ended(part.file)
        self._open.clear()

    def _begun(self, bucket: str) -> _Part:
        config, folder = self._sink.file_config, self._folder / bucket
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{config.part_prefix}-{self._name}-{len(self._written)}{config.part_suffix}"
        hidden = folder / f".{name}.inprogress.{uuid.uuid4()}"
        part = self._open[bucket] = _Part(hidden.open("xb"), hidden, folder / name)
        self._written.append(part)
        return part


def _ended(file: IO[bytes]) -> None:
    """Close a file once its contents and name are on the disk: a commit may name it next."""
    file.flush()
    os.fsync(file.fileno())
    file.close()
    folder = os.open(os.path.dirname(file.name), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
