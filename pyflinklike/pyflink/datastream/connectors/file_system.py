# SPDX-License-Identifier: Apache-2.0
"""Files, under the path that PyFlink has for them."""

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
    """The builder of a `FileSink`, with the former name of a parameter."""

    def with_rolling_policy(self, policy: RollingPolicy) -> FileSinkBuilder:
        """Set the rule for beginning another file.

        Args:
            policy: A policy made by a static method of `RollingPolicy`.
        """
        return super().with_rolling_policy(policy)


class _FormerBulkBuilder(BulkFormatBuilder):
    """The builder of a `FileSink` of another form than lines, with the former name of a parameter."""

    def with_rolling_policy(self, policy: OnCheckpointRollingPolicy) -> FileSinkBuilder:  # type: ignore[override]
        """Take the one rule that such files have: each micro-batch begins another file.

        Args:
            policy: `RollingPolicy.on_checkpoint_rolling_policy()`.
        """
        return super().with_rolling_policy(policy)


class StreamingFileSink:
    """Makes sinks of files, for `add_sink`; PyFlink itself calls it deprecated."""

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
        """Begin a sink that writes files of another form than lines: a `FileSink`.

        Args:
            base_path: The folder, or its `file:` address.
            writer_factory: Made by a class of `datastream.formats`.
        """
        return _FormerBulkBuilder(FileSink.for_bulk_format(base_path, writer_factory).build())
