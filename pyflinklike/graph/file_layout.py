# SPDX-License-Identifier: Apache-2.0
"""The folders and names of a `FileSink`'s files, and the rule for beginning another file."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import attrs

__all__ = ["BucketAssigner", "OutputFileConfig", "OutputFileConfigBuilder", "RollingPolicy"]

_MEBIBYTE = 1024 * 1024


@attrs.frozen
class OutputFileConfig:
    """The names of files, as PyFlink's: `prefix-name of the writer-number suffix`.

    Args:
        part_prefix: The text before the writer's name.
        part_suffix: The text after the number.

    Args:
        part_prefix: Before the name.
        part_suffix: After the number.
    """

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


@attrs.frozen
class RollingPolicy:
    """The rule for beginning another file, as PyFlink's.

    Args:
        part_size: The size in bytes at which a file ends; None for no limit.
    """

    part_size: int | None = None

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * _MEBIBYTE,
        rollover_interval: int = 60_000,  # noqa: ARG004  accepted for the sake of scripts
        inactivity_interval: int = 60_000,  # noqa: ARG004
    ) -> RollingPolicy:
        """Roll by size.  Times end no file here: files are seen only when a batch or job ends.

        Args:
            part_size: The size in bytes at which a file ends.
            rollover_interval: A time in ms; not used.
            inactivity_interval: A time in ms; not used.
        """
        return RollingPolicy(part_size)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Begin another file with each checkpoint."""
        return RollingPolicy()


@attrs.frozen
class BucketAssigner:
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
        for java, python in _PATTERNS:
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


_PATTERNS = (
    ("yyyy", "%Y"),
    ("MM", "%m"),
    ("dd", "%d"),
    ("HH", "%H"),
    ("mm", "%M"),
    ("ss", "%S"),
)
