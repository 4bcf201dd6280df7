# SPDX-License-Identifier: Apache-2.0
"""Files, at PyFlink's path."""

from __future__ import annotations

from pyflinklike.pyflink._foreign_names import deprecated_alias
from pyflinklike.pyflink._graph.files import (
    BucketAssigner,
    BulkFormat,
    BulkFormatBuilder,
    BulkWriterFactory,
    DefaultRollingPolicy,
    Encoder,
    FileSink,
    FileSinkBuilder,
    FileSource,
    FileSourceBuilder,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from pyflinklike.pyflink._names import of_pyflink

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "BulkWriterFactory",
    "DefaultRollingPolicy",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

__getattr__ = of_pyflink(__name__)


class _RowFormatBuilder(FileSinkBuilder):
    """The builder of a `FileSink`, with the parameter's name of `StreamingFileSink`."""

    def with_rolling_policy(self, policy: RollingPolicy) -> FileSinkBuilder:
        """Set the rule by which the sink begins another file.

        Args:
            policy: A policy made by a static method of `RollingPolicy`.
        """
        return super().with_rolling_policy(policy)


class _FormerBulkBuilder(BulkFormatBuilder):
    """The builder of a `FileSink` for other files than lines, with the parameter's name of `StreamingFileSink`."""

    def with_rolling_policy(self, policy: OnCheckpointRollingPolicy) -> FileSinkBuilder:  # type: ignore[override]
        """Set the only rule for such files: each micro-batch begins another file.

        Args:
            policy: The result of `RollingPolicy.on_checkpoint_rolling_policy()`.
        """
        return super().with_rolling_policy(policy)


class StreamingFileSink:
    """Makes sinks of files, for `add_sink`; PyFlink deprecates it."""

    BaseBuilder = DefaultRowFormatBuilder = _RowFormatBuilder
    DefaultBulkFormatBuilder = _FormerBulkBuilder

    @staticmethod
    @deprecated_alias("FileSink.for_row_format(base_path, encoder) and stream.sink_to")
    def for_row_format(base_path: str, encoder: Encoder) -> FileSinkBuilder:
        """Begin a sink that writes a line for each element: a `FileSink`.

        Args:
            base_path: The folder, or its `file:` address.
            encoder: The result of `Encoder.simple_string_encoder()`.
        """
        return _RowFormatBuilder(FileSink.for_row_format(base_path, encoder).build())

    @staticmethod
    @deprecated_alias("FileSink.for_bulk_format(base_path, writer_factory) and stream.sink_to")
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSinkBuilder:
        """Begin a sink that writes other files than lines: a `FileSink`.

        Args:
            base_path: The folder, or its `file:` address.
            writer_factory: A factory that a class of `datastream.formats` makes.
        """
        return _FormerBulkBuilder(FileSink.for_bulk_format(base_path, writer_factory).build())
