# SPDX-License-Identifier: Apache-2.0
"""A job as a graph: what a program of the DataStream API declares, before any host runs it.

    nodes       small frozen values; each names its inputs by their numbers
    builder     the nodes that the API has added so far
    job         the nodes that some sinks need, and the settings: the input of a host
    execution_plan, picture    a graph as JSON, in Mermaid's language, and drawn
    running     the result of a host: a way to follow the job
    sources, sinks, watermarks    the contents of nodes; PyFlink's classes of these names

A graph knows no host: `pyflinklike.local` runs a job in this process, `pyflinklike.spark` makes a
Spark plan of it.
"""
