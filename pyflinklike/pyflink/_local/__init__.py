# SPDX-License-Identifier: Apache-2.0
"""A job run in this process: no JVM, no threads, elements one by one.

It is a host like Spark's: it drives the operators of `pyflinklike._runtime` and adds no semantics
of its own.  Elements are processed in the order in which they arrive, each through the whole
graph before the next one is read; a watermark follows each element, or every so many of them.
"""

from pyflinklike.pyflink._local.local_run import LocalRun, start

__all__ = ["LocalRun", "start"]
