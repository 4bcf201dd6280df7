# SPDX-License-Identifier: Apache-2.0
"""Jobs of the DataStream API on Spark: a graph becomes one line of stages and keyed operators.

A line of n keyed operators has n + 1 stages and n shuffles.  A stage is one function over Arrow record
batches: it unpacks elements, runs all operators without state, and packs their outputs.  Elements for a
later stage pass the keyed operators in between as a `StageRecord`, which these do not open.

So any graph, however many ways lead through it, becomes a query that Spark can run: keyed operators at the same
distance from the sources share one shuffle and one `transformWithState`.
"""
