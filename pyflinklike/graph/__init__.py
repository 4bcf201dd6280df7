# SPDX-License-Identifier: Apache-2.0
"""A job as a graph: what a program of the DataStream API declares, before any host runs it.

    nodes       small frozen values; each names its inputs by their numbers
    builder     what the API adds nodes to
    job         the nodes that some sinks need, and the settings: what a host is given
    execution_plan, picture    a graph as JSON, in Mermaid's language, and drawn
    running     what a host gives for it
    sources, sinks, watermarks    what nodes hold; PyFlink's classes of these names

The room knows no host: `pyflinklike.local` runs a job in this process, `pyflinklike.spark` makes
a Spark plan of it.
"""
