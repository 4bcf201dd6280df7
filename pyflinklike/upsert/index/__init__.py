# SPDX-License-Identifier: Apache-2.0
"""An index of the record of each key, for programs without Spark.

The differences of a collection are added up in any order: in memory, in RocksDB, or first in memory
and then in RocksDB.
"""
