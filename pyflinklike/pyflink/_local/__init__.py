# SPDX-License-Identifier: Apache-2.0
"""The local runner: it runs a job in this process, without a JVM or threads, element by element.

It is a host like Spark's: it drives the operators of `pyflinklike._runtime` and adds no semantics
of its own.  Elements are processed in the order in which they arrive.  Each one passes through the whole
graph before the next one is read.  A watermark follows each element, or every so many elements.
"""

from pyflinklike.pyflink._local.local_run import LocalRun, start

__all__ = ["LocalRun", "start"]
