# SPDX-License-Identifier: Apache-2.0
"""Lines of text files as a source: PyFlink's `FileSource`."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Container, Iterable, Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any, NoReturn
from urllib.parse import unquote, urlsplit
from zlib import crc32

import attrs

from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, HostError
from pyflinklike.graph.sources import Source
from pyflinklike.shown import shown
from pyflinklike.types import TypeInformation, Types

__all__ = ["FileSource", "FileSourceBuilder", "StreamFormat", "local_path"]


@attrs.frozen
class StreamFormat:
    """The format of a file, as PyFlink's.

    Args:
        charset_name: The encoding of the text.
    """

    charset_name: str

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Read a string for each line; the ending of a file's name says how it is compressed.

        Args:
            charset_name: The encoding of the text, by a name that Python knows.
        """
        return StreamFormat(charset_name)


@attrs.frozen
class FileSource(Source):
    """The lines of files, as PyFlink's; folders are read recursively, hidden files are left out.

    Lines of one file keep their order.

    Args:
        paths: The paths of files and folders.
        charset: The encoding of the text.
        discovery_interval: How often to look for new files, in ms; None reads the files that exist,
            and ends.
    """

    paths: tuple[str, ...]
    charset: str = "UTF-8"
    discovery_interval: int | None = None

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source of the lines of files.

        Args:
            stream_format: The result of `StreamFormat.text_line_format()`.
            paths: Paths of files and folders, or their `file:` addresses.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        if not isinstance(stream_format, StreamFormat):
            msg = f"it takes a StreamFormat, got {shown(stream_format)}; give StreamFormat.text_line_format()"
            raise DeclarationTypeError(msg)
        if not paths:
            msg = "a FileSource reads at least one path, got none; give a file or a folder"
            raise DeclarationValueError(msg)
        return FileSourceBuilder(FileSource(tuple(map(str, paths)), stream_format.charset_name))

    @staticmethod
    def for_bulk_file_format(*_: Any) -> NoReturn:
        """Refuse files of columns: Spark reads them.

        Raises:
            HostError: Always.
        """
        msg = (
            "files of columns (Parquet, ORC, Avro) and CSV are read by Spark, got for_bulk_file_format; "
            "read them with spark.read and pyflinklike.spark.key_by"
        )
        raise HostError(msg)

    @property
    def is_bounded(self) -> bool:
        """True where it reads only the files that exist when it begins."""
        return self.discovery_interval is None

    @property
    def type_info(self) -> TypeInformation:
        """STRING: the elements are lines."""
        return Types.STRING()

    @property
    def identity(self) -> str:
        """The paths, which distinguish it from other sources."""
        return f"the files of {', '.join(str(local_path(path).absolute()) for path in self.paths)}"

    @property
    def discovery_milliseconds(self) -> int | None:
        """The time between looks for new files, in ms; None reads existing files, and ends."""
        return self.discovery_interval

    def discover(self, known: Container[str]) -> list[str]:
        """Return the paths of files that are not known yet, by the times of their contents.

        A file counts as soon as it has its name: write it under a hidden name, and rename it.

        Raises:
            HostError: A path is not on this machine, or does not exist.
        """
        new = {each for each in map(_absolute, self._files()) if each not in known}
        times = {each: _modified(each) for each in new}
        found = sorted((time, each) for each, time in times.items() if time is not None)
        return [each for _, each in found]

    @property
    def is_in_parts(self) -> bool:
        """True for a source that ends: its files are listed once, since later lists may differ."""
        return self.is_bounded

    def parts(self) -> list[str]:
        """Return the paths of the files that exist, in order.

        Raises:
            HostError: A path is not on this machine, or does not exist.
        """
        return [_absolute(each) for each in self._files()]

    def read_part(self, part: str) -> Iterator[tuple[Any, int | None]]:
        """Yield the lines of a file, without event times."""
        return self._lines([Path(part)])

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """Yield the lines of the files of one instance, without event times.

        Raises:
            HostError: The source looks for new files, or a path is not on this machine, or does not
                exist.
        """
        if self.discovery_interval is not None:
            return super().read(index, parallelism)
        # By name, not by number: another instance may see a file that this one does not.
        own = [each for each in self.parts() if crc32(each.encode()) % parallelism == index]
        return self._lines(map(Path, own))

    def _files(self) -> Iterator[Path]:
        for path in map(local_path, self.paths):
            if not path.exists():
                msg = f"a FileSource reads files that are there, got {str(path)!r}, which is not; check the path"
                raise HostError(msg)
            yield from _files(path)

    def _lines(self, files: Iterable[Path]) -> Iterator[tuple[Any, int | None]]:
        for file in files:
            # As Java's BufferedReader: a line ends with \n, \r or \r\n, and nothing else.
            with TextIOWrapper(_opened(file), encoding=self.charset, newline=None) as text:
                for line in text:
                    yield line.removesuffix("\n"), None


@attrs.define
class FileSourceBuilder:
    """Sets how files are read, and `build`s the source."""

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


def local_path(path: str) -> Path:
    """Return the path of a file on this machine.

    Raises:
        HostError: The path is an address on another machine.
    """
    if "://" not in path and not path.startswith("file:"):
        return Path(path)
    parts = urlsplit(path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        msg = (
            f"files of jobs are on file systems that this machine has mounted, got {path!r}; mount it, "
            "or read and write such addresses with Spark's DataFrames"
        )
        raise HostError(msg)
    return Path(unquote(parts.path))


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or all files in a folder and in its folders, in the order of their names."""
    if not path.is_dir():
        yield path
        return
    for each in sorted(path.iterdir()):
        if not each.name.startswith((".", "_")):
            yield from _files(each)


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".deflate":
        return BytesIO(zlib.decompress(path.read_bytes()))
    opening: Any = {".gz": gzip, ".gzip": gzip, ".bz2": bz2, ".xz": lzma}.get(path.suffix)
    opened: IO[bytes] = path.open("rb") if opening is None else opening.open(path, "rb")
    return opened


def _absolute(path: Path) -> str:
    return str(path.absolute())


def _modified(path: str) -> int | None:
    """Return when a file was written last, in ns; None where it has gone since it was found."""
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return None
