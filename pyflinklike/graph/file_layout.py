# SPDX-License-Identifier: Apache-2.0
"""Where a `FileSink` writes: folders, names of files, and when another file begins."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import attrs

__all__ = ["BucketAssigner", "OutputFileConfig", "OutputFileConfigBuilder", "RollingPolicy"]

_MEBIBYTE = 1024 * 1024


@attrs.frozen
class OutputFileConfig:
    """How files are called, as PyFlink's: `prefix-name of the writer-number suffix`.

    Args:
        part_prefix: Before the name.
        part_suffix: After the number.
    """

    part_prefix: str = "part"
    part_suffix: str = ""

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """Says how files are called."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """What is before the name."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """What is after the number."""
        return self.part_suffix


@attrs.define
class OutputFileConfigBuilder:
    """Says how files are called, and `build`s the configuration."""

    _config: OutputFileConfig = attrs.field(factory=OutputFileConfig, init=False)

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        """How names begin."""
        self._config = attrs.evolve(self._config, part_prefix=prefix)
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """How names end."""
        self._config = attrs.evolve(self._config, part_suffix=suffix)
        return self

    def build(self) -> OutputFileConfig:
        """The configuration."""
        return self._config


@attrs.frozen
class RollingPolicy:
    """When another file begins, as PyFlink's.

    Args:
        part_size: Once a file has so many bytes; None for never.
    """

    part_size: int | None = None

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * _MEBIBYTE,
        rollover_interval: int = 60_000,  # noqa: ARG004  accepted for the sake of scripts
        inactivity_interval: int = 60_000,  # noqa: ARG004
    ) -> RollingPolicy:
        """By size; times end no file here, for files are seen only when a batch or job has ended.

        Args:
            part_size: In bytes.
            rollover_interval: In ms.
            inactivity_interval: In ms.
        """
        return RollingPolicy(part_size)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """With each checkpoint."""
        return RollingPolicy()


@attrs.frozen
class BucketAssigner:
    """Which folder a line is written to, as PyFlink's.

    Args:
        pattern: Of `strftime`, for the processing time; empty for the folder of the sink.
        time_zone: Of the text, or None for that of the machine.
    """

    pattern: str
    time_zone: str | None = None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """The folder of the sink itself."""
        return BucketAssigner("")

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """A folder for each hour, or whatever the pattern says.

        Args:
            format_str: As Java writes it, of `yyyy MM dd HH mm ss` and signs between.
            timezone_id: Such as `Europe/Berlin`.
        """
        for java, python in _PATTERNS:
            format_str = format_str.replace(java, python)
        return BucketAssigner(format_str, timezone_id)

    def bucket(self, now: int) -> str:
        """The folder's name.

        Args:
            now: In ms.
        """
        zone = dt.timezone.utc if self.time_zone is None else ZoneInfo(self.time_zone)
        moment = dt.datetime.fromtimestamp(now / 1000, zone)
        return (moment.astimezone() if self.time_zone is None else moment).strftime(self.pattern)


_PATTERNS = (
    ("yyyy", "%Y"),
    ("MM", "%m"),
    ("dd", "%d"),
    ("HH", "%H"),
    ("mm", "%M"),
    ("ss", "%S"),
)
