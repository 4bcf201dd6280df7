# SPDX-License-Identifier: Apache-2.0
"""The changelog of a key group: how keyed state outlives the worker that holds it.

The problem: a function reads and writes its state in a Python worker, and Spark starts, moves and
kills workers as it likes.  Only what is in Spark's state store is committed with a micro-batch, and
writing all keys there for every batch would be too slow.  So each key group has its state twice:

* The *working state* is what the function uses: dicts or RocksDB in the worker.  It is fast, and
  it may be lost or stale at any time.
* The *log* is durable.  It holds what each commit changed, as *segments*: one binary value each.
  A small *head* names the newest segment.  The host (Spark's state store, or a dict in a test
  harness) stores head and segments in one transaction.

The life of a key group in one micro-batch:

1. The worker reads the head.  If the working state that it cached is as new, it uses that.  If
   not, it reads the segments that are missing, or all of them (`key_group_log.KeyGroupLog.load`).
2. The function runs and changes the working state.  The backend notes which entries change.
3. The worker writes these entries as a new segment, and then the head (`KeyGroupLog.commit`).  If
   the log has grown too long, it writes a snapshot of everything instead, and drops the rest.
4. The host commits.  If it fails, it goes back to the former head and tries again, maybe in another
   worker.  Step 1 then sees that the working state does not belong to the head.

To learn the log, read the modules in this order:

* `key_group_log`: loading, committing, compacting, and why stale state is never used.
* `log_storage`: the head, and what a host must provide; `key_group_state`: the working state.
* `segment_chain`, `segments`, `entry_codec`, `arrow_message`: from the chain of segments down to
  the bytes of an entry; `damage`: how damaged bytes become errors.
* `operator_record`: which operator the state belongs to, and which key groups there must be.
* `stored_table`, `snapshot_division`: reading logs without the program that wrote them, for
  savepoints and for state as data.

Flink's changelog backend has the same two forms, but there the log only bridges the time between
two snapshots of the working state: see its [keyed backend](
https://github.com/apache/flink/blob/master/flink-state-backends/flink-statebackend-changelog/src/main/java/org/apache/flink/state/changelog/ChangelogKeyedStateBackend.java).
"""
