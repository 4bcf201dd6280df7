# SPDX-License-Identifier: Apache-2.0
"""Files as a source and as a sink: PyFlink's `FileSource` and `FileSink`.

Lines of text are read and written here.  Files of other forms, such as Parquet, are read and written by the
formats of `datastream.formats`.

A file is written under a hidden name, which sources leave out.  It is renamed when its job or its
micro-batch ends well.  So a reader never sees half a file, nor a file of a task that has failed.
"""

from __future__ import annotations

import bz2
import datetime as dt
import glob
import gzip
import lzma
import os
import uuid
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol
from zlib import crc32
from zoneinfo import ZoneInfo

import attrs

from pyflinklike._clock import DurationLike, to_milliseconds, wall_clock
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import instance_of, short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, SparkSetupError
from pyflinklike.pyflink._graph.sinks import Renaming, Sink, SinkWriter, java_text
from pyflinklike.pyflink._graph.sources import Source
from pyflinklike.state_processor._folders.folder_paths import local_path
from pyflinklike.types import PickledByteArrayTypeInfo, TypeInformation, Types

# The source


@attrs.frozen
class FileSource(Source):
    """The elements of files, as PyFlink's; folders are read recursively, hidden files are left out.

    Elements of one file keep their order.

    Args:
        paths: The paths of files and folders.
        file_format: Reads the elements of one file.
        discovery_interval: How often to look for new files, in ms; None reads the files that exist,
            and ends.

    Example:
        ```python
        lines = StreamFormat.text_line_format()
        source = FileSource.for_record_stream_format(lines, "/data/in").build()
        ```
    """

    paths: tuple[str, ...]
    file_format: FileFormat
    discovery_interval: int | None = None

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source of files that are read element by element.

        Args:
            stream_format: `StreamFormat.text_line_format()` for lines, or a format of
                `datastream.formats`, such as `CsvReaderFormat.for_schema(schema)`.
            paths: Paths of files and folders, or their `file:` addresses.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return _source_of(stream_format, paths, StreamFormat, "StreamFormat.text_line_format()")

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source of files that are read in blocks of columns.

        Args:
            bulk_format: A format of `datastream.formats`, such as `ParquetColumnarRowInputFormat`.
            paths: Paths of files and folders, or their `file:` addresses.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return _source_of(bulk_format, paths, BulkFormat, "ParquetColumnarRowInputFormat")

    @property
    def is_bounded(self) -> bool:
        """True if it reads only the files that exist when it begins."""
        return self.discovery_interval is None

    @property
    def type_info(self) -> TypeInformation:
        """The type of the elements in the files."""
        return self.file_format.type_info

    @property
    def identity(self) -> str:
        """The paths and the format, which distinguish it from other sources."""
        paths = ", ".join(str(local_path(path).absolute()) for path in self.paths)
        name = self.file_format.name
        return f"the files of {paths}{f' as {name}' if name else ''}"

    @property
    def discovery_milliseconds(self) -> int | None:
        """The time between looks for new files, in ms; None reads existing files, and ends."""
        return self.discovery_interval

    def discover(self, known: Container[str]) -> list[str]:
        """Return the paths of files that are not known yet, by the times of their contents.

        A file counts as soon as it has its name: write it under a hidden name, and rename it.

        Raises:
            SparkSetupError: A path is not on this machine, or does not exist.
        """
        new = {each for each in self.splits() if each not in known}
        times = {each: _read_modification_time(each) for each in new}
        found = sorted((time, each) for each, time in times.items() if time is not None)
        return [each for _, each in found]

    @property
    def has_named_splits(self) -> bool:
        """True for a source that ends: its files are listed once, since later lists may differ."""
        return self.is_bounded

    def splits(self) -> list[str]:
        """Return the paths of the files that exist, in order.

        Raises:
            SparkSetupError: A path is not on this machine, or does not exist.
        """
        return [str(each.absolute()) for each in self._files()]

    def read_split(self, split: str) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements of a file, without event times."""
        return self._elements([Path(split)])

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements of the files of one instance, without event times.

        Raises:
            SparkSetupError: The source looks for new files, or a path is not on this machine, or does not
                exist.
        """
        if self.discovery_interval is not None:
            return super().read(index, parallelism)
        # By name, not by number: another instance may see a file that this one does not.
        own = [each for each in self.splits() if crc32(each.encode()) % parallelism == index]
        return self._elements(map(Path, own))

    def _files(self) -> Iterator[Path]:
        for path in map(local_path, self.paths):
            if not path.exists():
                msg = f"a FileSource reads files that exist, got {str(path)!r}, which does not; check the path"
                raise SparkSetupError(msg)
            yield from _files(path)

    def _elements(self, files: Iterable[Path]) -> Iterator[tuple[Any, int | None]]:
        for file in files:
            for element in self.file_format.read(file):
                yield element, None


def _source_of(
    file_format: Any, paths: tuple[str, ...], kind: Any, example: str
) -> FileSourceBuilder:
    if not isinstance(file_format, kind):
        remedy = f"give for example {example}"
        for other, method in _METHODS.items():
            if isinstance(file_format, other):
                remedy = f"this is a {other.__name__}: call {method}"
        msg = f"it takes a {kind.__name__}, got {short_repr(file_format)}; {remedy}"
        raise DeclarationTypeError(msg)
    if not paths:
        msg = "a FileSource reads at least one path, got none; give a file or a folder"
        raise DeclarationValueError(msg)
    return FileSourceBuilder(FileSource(tuple(map(str, paths)), file_format))


@attrs.define
class FileSourceBuilder(WithoutJava):
    """Sets how files are read, and `build`s the source."""

    _refused: ClassVar[Mapping[str, str]] = {
        "set_file_enumerator": "the source lists its files by itself: leave it out",
        "set_split_assigner": "the host, not the program, decides which task reads a file: leave it out",
    }
    _source: FileSource

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that exist, and end; this is the default."""
        self._source = attrs.evolve(self._source, discovery_interval=None)
        return self

    def monitor_continuously(self, discovery_interval: DurationLike) -> FileSourceBuilder:
        """Look for new files again and again, and never end.

        Args:
            discovery_interval: How often: a `Duration`, `Time`, `timedelta` or an int of ms.
        """
        interval = to_milliseconds(discovery_interval, "discovery_interval")
        self._source = attrs.evolve(self._source, discovery_interval=interval)
        return self

    def build(self) -> FileSource:
        """Make the source."""
        return self._source


class FileFormat(WithoutJava, ABC):
    """Reads files of one form; a program may have subclasses for its own forms."""

    @property
    @abstractmethod
    def type_info(self) -> TypeInformation:
        """The type of the elements."""

    @property
    def name(self) -> str:
        """The name of the form, which a job that goes on must not change; "" for lines of text."""
        return type(self).__name__

    @abstractmethod
    def read(self, path: Path) -> Iterator[Any]:
        """Yield the elements of a file, in order.

        Args:
            path: The path of the file.

        Raises:
            SparkSetupError: The file is damaged, or holds something else.
        """


class StreamFormat(FileFormat):
    """The format of files that are read element by element, as PyFlink's."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Read a string for each line; the ending of a file's name says how it is compressed.

        Args:
            charset_name: The encoding of the text, by a name that Python knows.
        """
        return _TextLines(charset_name)


class BulkFormat(FileFormat):
    """The format of files that are read in blocks, as PyFlink's."""


_METHODS: dict[Any, str] = {
    StreamFormat: "for_record_stream_format",
    BulkFormat: "for_bulk_file_format",
}
"""The method of `FileSource` for each kind of formats."""


@attrs.frozen
class _TextLines(StreamFormat):
    charset_name: str

    type_info = Types.STRING()
    name = ""

    def read(self, path: Path) -> Iterator[Any]:
        # As Java's BufferedReader: a line ends with \n, \r or \r\n, and nothing else.
        with TextIOWrapper(open_to_read(path), encoding=self.charset_name, newline=None) as text:
            for line in text:
                yield line.removesuffix("\n")


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or all files in a folder and in its folders, in the order of their names."""
    if not path.is_dir():
        yield path
        return
    for each in sorted(path.iterdir()):
        if not each.name.startswith((".", "_")):
            yield from _files(each)


def open_to_read(path: Path) -> IO[bytes]:
    """Open a file; the ending of its name says how it is compressed."""
    # zlib reads no streams of files, so such a file is decompressed at once.
    if path.suffix == ".deflate":
        return BytesIO(zlib.decompress(path.read_bytes()))
    opening: Any = {".gz": gzip, ".gzip": gzip, ".bz2": bz2, ".xz": lzma}.get(path.suffix)
    opened: IO[bytes] = path.open("rb") if opening is None else opening.open(path, "rb")
    return opened


def _read_modification_time(path: str) -> int | None:
    """Return when a file was written last, in ns; None if it was deleted since it was found."""
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return None


# The sink


@attrs.frozen
class Encoder(WithoutJava):
    """The conversion of an element to bytes, as `pyflink.common.Encoder`.

    Args:
        charset_name: The encoding of the text.
    """

    charset_name: str = "UTF-8"

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Make a line for each element, with the text that Java has for it.

        Args:
            charset_name: The encoding of the text, by a name that Python knows.
        """
        return Encoder(charset_name)


class BulkWriter(Protocol):
    """Writes the elements of one file."""

    def add(self, value: Any) -> int:
        """Write an element, and return how many bytes the file has grown; 0 if that is not known.

        Raises:
            OutputError: The element does not fit the file.
        """

    def finish(self) -> None:
        """Write the rest; the owner of the file closes it."""

    def abandon(self) -> None:
        """Drop what is not written yet: the job has failed, and the file is removed."""


class BulkWriterFactory(WithoutJava, ABC):
    """Makes writers of files, as PyFlink's; a program may have subclasses for its own forms."""

    @abstractmethod
    def open(self, file: IO[bytes], type_info: TypeInformation) -> BulkWriter:
        """Return the writer of a new file.

        Args:
            file: The file, open to be written.
            type_info: The type of the elements.
        """


@attrs.frozen
class OutputFileConfig(WithoutJava):
    """The names of files, as PyFlink's: `prefix-name of the writer-number suffix`.

    Args:
        part_prefix: The text before the writer's name.
        part_suffix: The text after the number.
    """

    OutputFileConfigBuilder: ClassVar[Any]
    part_prefix: str = "part"
    part_suffix: str = ""

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """Make a builder of the configuration."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the text before the writer's name."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the text after the number."""
        return self.part_suffix


@attrs.define
class OutputFileConfigBuilder:
    """Sets the names of files, and `build`s the configuration."""

    _config: OutputFileConfig = attrs.field(factory=OutputFileConfig, init=False)

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        """Set the beginning of names.

        Args:
            prefix: The text before the writer's name.
        """
        self._config = attrs.evolve(self._config, part_prefix=prefix)
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """Set the end of names.

        Args:
            suffix: The text after the number.
        """
        self._config = attrs.evolve(self._config, part_suffix=suffix)
        return self

    def build(self) -> OutputFileConfig:
        """Make the configuration."""
        return self._config


_MEBIBYTE = 1024 * 1024


@attrs.frozen
class RollingPolicy(WithoutJava):
    """The rule for beginning another file, as PyFlink's.

    Args:
        part_size: The size in bytes at which a file ends; None for no limit.
    """

    part_size: int | None = None

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * _MEBIBYTE,
        rollover_interval: int = 60_000,  # noqa: ARG004  so that programs of PyFlink run
        inactivity_interval: int = 60_000,  # noqa: ARG004
    ) -> DefaultRollingPolicy:
        """End a file by its size alone: it is seen only when its batch or job ends, whatever its age.

        Args:
            part_size: The size in bytes at which a file ends.
            rollover_interval: A time in ms; not used.
            inactivity_interval: A time in ms; not used.
        """
        return DefaultRollingPolicy(part_size)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Begin another file with each checkpoint."""
        return OnCheckpointRollingPolicy()


@attrs.frozen
class DefaultRollingPolicy(RollingPolicy):
    """The rule that `RollingPolicy.default_rolling_policy` makes."""


@attrs.frozen
class OnCheckpointRollingPolicy(RollingPolicy):
    """The rule that `RollingPolicy.on_checkpoint_rolling_policy` makes."""


@attrs.frozen
class BucketAssigner(WithoutJava):
    """The folder that a line is written to, as PyFlink's.

    Args:
        pattern: A pattern of `strftime` for the processing time; empty for the folder of the sink.
        time_zone: The name of the time zone of the folder's name; None for the machine's.
    """

    pattern: str
    time_zone: str | None = None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Write to the folder of the sink itself."""
        return BucketAssigner("")

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """Write to a folder for each hour, or for each text of another pattern.

        Args:
            format_str: A pattern in Java's form, of `yyyy MM dd HH mm ss` and signs between.
            timezone_id: The name of a time zone, such as `Europe/Berlin`; None for the machine's.
        """
        for java, python in _PATTERNS.items():
            format_str = format_str.replace(java, python)
        return BucketAssigner(format_str, timezone_id)

    def bucket(self, now: int) -> str:
        """Return the folder's name.

        Args:
            now: The processing time in ms.
        """
        zone = dt.timezone.utc if self.time_zone is None else ZoneInfo(self.time_zone)
        moment = dt.datetime.fromtimestamp(now / 1000, zone)
        return (moment.astimezone() if self.time_zone is None else moment).strftime(self.pattern)


_PATTERNS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
"""Parts of a pattern in Java's form, and in Python's."""


@attrs.frozen
class FileSink(Sink):
    """Writes elements to files, as PyFlink's; by default into a folder for each hour.

    Args:
        base_path: The folder, or its `file:` address.
        encoder: Makes lines, or writers of files of another form.
        file_config: The names of files.
        rolling_policy: The rule for beginning another file.
        bucket_assigner: Chooses the folder of a line.
        clock: Returns the processing time in ms.
    """

    base_path: str
    encoder: Encoder | BulkWriterFactory
    file_config: OutputFileConfig = attrs.field(factory=OutputFileConfig)
    rolling_policy: RollingPolicy = attrs.field(factory=RollingPolicy.default_rolling_policy)
    bucket_assigner: BucketAssigner = attrs.field(factory=BucketAssigner.date_time_bucket_assigner)
    clock: Callable[[], int] = wall_clock
    BaseBuilder: ClassVar[Any]
    RowFormatBuilder: ClassVar[Any]
    BulkFormatBuilder: ClassVar[Any]

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
            remedy = "give Encoder.simple_string_encoder()"
            if isinstance(encoder, BulkWriterFactory):
                remedy = "this is a BulkWriterFactory: call for_bulk_format"
            msg = f"it takes an Encoder, got {short_repr(encoder)}; {remedy}"
            raise DeclarationTypeError(msg)
        return FileSinkBuilder(FileSink(str(base_path), encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> BulkFormatBuilder:
        """Begin a sink that writes files of another form than lines, such as Parquet.

        A file ends with its micro-batch or its job, so each file is whole as soon as it is visible.

        Args:
            base_path: The folder, or its `file:` address.
            writer_factory: Made by a class of `datastream.formats`, such as
                `ParquetBulkWriters.for_row_type(row_type)`.

        Raises:
            DeclarationTypeError: `writer_factory` is no `BulkWriterFactory`.
        """
        if not isinstance(writer_factory, BulkWriterFactory):
            example = "give for example ParquetBulkWriters.for_row_type(row_type)"
            remedy = instance_of(BulkWriterFactory, writer_factory, example)
            msg = f"it takes a BulkWriterFactory, got {short_repr(writer_factory)}; {remedy}"
            raise DeclarationTypeError(msg)
        # As in Flink, which ends files of bulk formats at checkpoints only.
        policy = OnCheckpointRollingPolicy()
        return BulkFormatBuilder(FileSink(str(base_path), writer_factory, rolling_policy=policy))

    is_written_by_tasks = True

    def remove_unfinished(self, name: str) -> None:
        """Remove hidden files of writers whose names begin with `name`."""
        # The prefix is the program's, and may hold signs of patterns.
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
        """Make the writer of the files of one instance."""
        return _FileWriter(self, type_info, name or str(uuid.uuid4()))


@attrs.define
class FileSinkBuilder(WithoutJava):
    """Sets how files are written, and `build`s the sink."""

    _refused: ClassVar[Mapping[str, str]] = {
        "enable_compact": "small files are not put together: leave it out, call set_parallelism for fewer "
        "files, or put them together with Spark"
    }
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
        """Do nothing: a file never ends because of its age."""
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


class BulkFormatBuilder(FileSinkBuilder):
    """Sets how files of another form than lines are written, and `build`s the sink."""

    def with_rolling_policy(self, rolling_policy: OnCheckpointRollingPolicy) -> FileSinkBuilder:  # type: ignore[override]
        """Accept the only rule for such files: each micro-batch begins another file.

        Args:
            rolling_policy: The result of `RollingPolicy.on_checkpoint_rolling_policy()`.

        Raises:
            DeclarationTypeError: It is another policy.
        """
        if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
            msg = (
                f"rolling_policy must be OnCheckpointRollingPolicy for bulk formats, got "
                f"{short_repr(rolling_policy)}; give RollingPolicy.on_checkpoint_rolling_policy()"
            )
            raise DeclarationTypeError(msg)
        return super().with_rolling_policy(rolling_policy)


# PyFlink's names of the builders.
FileSink.BulkFormatBuilder = BulkFormatBuilder
FileSink.BaseBuilder = FileSink.RowFormatBuilder = FileSinkBuilder
OutputFileConfig.OutputFileConfigBuilder = OutputFileConfigBuilder


@attrs.define
class _PartFile:
    """A file that is being written."""

    file: IO[bytes]
    writer: BulkWriter
    hidden: Path
    path: Path
    size: int = 0

    def finish(self) -> None:
        """End the file."""
        self.writer.finish()
        _close(self.file)


@attrs.frozen
class _LineWriter:
    """Writes a line for each element."""

    file: IO[bytes]
    text: Callable[[Any], str]
    charset_name: str

    def add(self, value: Any) -> int:
        line = f"{self.text(value)}\n".encode(self.charset_name)
        self.file.write(line)
        return len(line)

    def finish(self) -> None:
        """Do nothing: every line is written."""

    abandon = finish


class _FileWriter(SinkWriter):
    def __init__(self, sink: FileSink, type_info: TypeInformation, name: str) -> None:
        self._sink, self._type_info = sink, type_info
        self._folder, self._name = local_path(sink.base_path).absolute(), name
        self._open: dict[str, _PartFile] = {}
        self._written: list[_PartFile] = []
        is_text = isinstance(type_info, PickledByteArrayTypeInfo)
        # As in PyFlink, an untyped element is written as Python writes it, a typed one as Java does.
        self._text = str if is_text else lambda value: java_text(value, type_info)

    def write(self, value: Any, timestamp: int | None) -> None:  # noqa: ARG002
        bucket = self._sink.bucket_assigner.bucket(self._sink.clock())
        part = self._open.get(bucket) or self._begin(bucket)
        part.size += part.writer.add(value)
        # `add` may return 0 for a writer that holds elements back: then a file may become larger.
        limit = self._sink.rolling_policy.part_size
        if limit is not None and part.size >= limit:
            self._open.pop(bucket).finish()

    def prepare(self) -> list[Renaming]:
        for part in self._open.values():
            part.finish()
        self._open.clear()
        return [Renaming(part.hidden, part.path) for part in self._written]

    def abandon(self) -> None:
        # `finish` is not called: the job may have failed because it cannot write.
        for part in self._open.values():
            part.writer.abandon()
            part.file.close()
        self._open.clear()
        for part in self._written:
            part.hidden.unlink(missing_ok=True)

    def _begin(self, bucket: str) -> _PartFile:
        config, folder = self._sink.file_config, self._folder / bucket
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{config.part_prefix}-{self._name}-{len(self._written)}{config.part_suffix}"
        # Spark may run two attempts of a task at the same time, with the same name.
        hidden = folder / f".{name}.inprogress.{uuid.uuid4()}"
        file = hidden.open("xb")
        part = self._open[bucket] = _PartFile(file, self._writer_of(file), hidden, folder / name)
        self._written.append(part)
        return part

    def _writer_of(self, file: IO[bytes]) -> BulkWriter:
        encoder = self._sink.encoder
        if isinstance(encoder, BulkWriterFactory):
            return encoder.open(file, self._type_info)
        return _LineWriter(file, self._text, encoder.charset_name)


def _close(file: IO[bytes]) -> None:
    """Close a file once its contents and name are on the disk: a commit may name it next."""
    file.flush()
    os.fsync(file.fileno())
    file.close()
    # The name of a new file is on the disk only after an fsync of its folder.
    folder = os.open(os.path.dirname(file.name), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
