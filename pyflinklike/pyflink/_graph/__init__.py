# SPDX-License-Identifier: Apache-2.0
"""A job as a graph: what a program of the DataStream API declares, before any host runs it.

The API adds nodes, small frozen values that name their inputs by numbers.  Sources, sinks and
watermark strategies are the contents of nodes; their classes have PyFlink's names.  A job is the
part of the graph that some sinks need, with settings: a host takes it, and returns a `JobRun` to follow
it.  A graph knows no host: `pyflinklike.pyflink._local` runs a job in this process, `pyflinklike.spark`
makes a Spark plan from it.
"""
