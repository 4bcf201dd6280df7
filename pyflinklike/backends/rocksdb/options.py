# SPDX-License-Identifier: Apache-2.0
"""RocksDB's settings for kinds of disks, after Flink's `PredefinedOptions`.

They apply to one task: its memory is about the block cache and the write buffers.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import attrs

__all__ = ["PredefinedOptions"]

_KIB, _MIB = 1024, 1024 * 1024


@attrs.frozen
class _Settings:
    """The settings that differ between kinds of disks.

    Args:
        block_cache: Bytes of uncompressed blocks kept in memory.
        block_size: Bytes read from the disk at once.
        write_buffer: Bytes collected before they are written to a file.
        write_buffers: Most write buffers at a time.
        merged_buffers: Number of write buffers that become one file.
        file_size: Bytes of a file in the first level that is sorted.
        level_size: Bytes of that level.
        is_level_dynamic: Whether levels are sized from the last one backwards, which wastes less
            space.
        background_jobs: Number of threads that flush and compact.
    """

    block_cache: int = 32 * _MIB
    block_size: int = 4 * _KIB
    write_buffer: int = 16 * _MIB
    write_buffers: int = 2
    merged_buffers: int = 1
    file_size: int = 64 * _MIB
    level_size: int = 256 * _MIB
    is_level_dynamic: bool = False
    background_jobs: int = 2


class PredefinedOptions(Enum):
    """The kinds of disks that RocksDB can be tuned for, as PyFlink's."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3

    def to_options(self, rocksdict: Any) -> Any:
        """Make RocksDB's own options with the module rocksdict."""
        settings = _SETTINGS[self]
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_keep_log_file_num(1)
        options.set_stats_dump_period_sec(0)
        options.set_use_fsync(False)
        options.set_max_open_files(-1)
        options.set_write_buffer_size(settings.write_buffer)
        options.set_max_write_buffer_number(settings.write_buffers)
        options.set_min_write_buffer_number_to_merge(settings.merged_buffers)
        options.set_target_file_size_base(settings.file_size)
        options.set_max_bytes_for_level_base(settings.level_size)
        options.set_level_compaction_dynamic_level_bytes(settings.is_level_dynamic)
        options.set_max_background_jobs(settings.background_jobs)
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_cache(rocksdict.Cache(settings.block_cache))
        blocks.set_block_size(settings.block_size)
        # Most lookups of new keys find nothing: a Bloom filter spares the read.
        blocks.set_bloom_filter(10.0, False)
        options.set_block_based_table_factory(blocks)
        return options


_SETTINGS = {
    PredefinedOptions.DEFAULT: _Settings(),
    PredefinedOptions.SPINNING_DISK_OPTIMIZED: _Settings(
        block_size=32 * _KIB, is_level_dynamic=True, background_jobs=4
    ),
    PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM: _Settings(
        block_cache=256 * _MIB,
        block_size=128 * _KIB,
        write_buffer=64 * _MIB,
        write_buffers=4,
        merged_buffers=3,
        file_size=256 * _MIB,
        level_size=1024 * _MIB,
        is_level_dynamic=True,
        background_jobs=4,
    ),
    PredefinedOptions.FLASH_SSD_OPTIMIZED: _Settings(block_cache=64 * _MIB, background_jobs=4),
}
