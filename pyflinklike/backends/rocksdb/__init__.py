# SPDX-License-Identifier: Apache-2.0
"""Working state on a worker's disk, in RocksDB."""
