# SPDX-License-Identifier: Apache-2.0
"""Whole queries on a simulated Spark: one thread, no JVM, everything from one seed.

    python -m simulated --minutes 5               # many seeds; it ends with 1 if one of them differs
    python -m simulated --seed 7 --batches 40     # one seed, with its history

Run both with `PYTHONPATH=.:tests/support`; they need the extras `spark`, `rocksdb` and `dev`.

Driver, state store in both checkpoint formats, tasks, workers and files are simulated, and
everything of pyflinklike is real.  A run draws a program and faults, and compares rows and state
with what a run without faults gives.  Attempts end at every round trip and in the middle of a
record, twice side by side, or late.  Drivers, executors and workers die.  A bit of a file flips.
Queries go on with other declarations, from savepoints, or only with what is available now.
Functions declare states when a record uses them.

At the end of each run single bits of the state are flipped, and each must be reported.  The change
feed of the last micro-batch must name nothing that this batch did not touch.  An error of ours
counts as right only if a fault in that very store explains it: versions of two attempts in it, or a
damaged file.  Everything else is a failure.

| module | subject |
|---|---|
| `choices` | every decision of a run: drawn, recorded, replayed, shortened |
| `query`, `tasks`, `state_store`, `file_system`, `group_state` | Spark: the driver, attempts in workers, the state store, disks, PySpark 3.5's operator |
| `frames` | DataFrames that keep the plans of keyed operators |
| `programs`, `functions` | the queries that are drawn |
| `program`, `oracle` | what a query is, and what must come of it |
| `simulation` | one run, and how it is compared |

Tests of hosts use single parts: `operator_state` has one state operator without its driver.
"""
