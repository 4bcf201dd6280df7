# SPDX-License-Identifier: Apache-2.0
"""`UpsertState`: the record of each key, for programs that keep it themselves.

Differences of a collection are added up in any order (`sketch`), in memory, in RocksDB, or first
in one and then in the other.
"""
