# SPDX-License-Identifier: Apache-2.0
"""Jobs of the DataStream API on Spark: a graph becomes one linear plan.

    stages      which part of the graph runs between which shuffles
    parts       the stations of a stage in a task: those of the local runner
    spreading   which key groups of the next keyed operator get records
    sending     what leaves a stage: records by key group, parcels that pass on, results
    tasks       the functions that Spark runs
    operators   reads and lays out what a keyed operator processes and gives
    sources     frames of what sources give
    times       by which time keyed operators are woken
    steps       puts these together
    plans       frames of the steps, in batch mode and in streaming mode
    refusals    what this host does not run
    results     gives rows of the plan to sinks
    runs        the job while it runs
    frames      DataFrames as sources
    bridges     streams as DataFrames

A job with n keyed operators has n + 1 stages and n shuffles.  A stage is one function over Arrow
batches: it unpacks, runs what needs no state, and packs.  What is meant for a later stage passes the
keyed operators in between as a parcel that none of them opens.
"""
