# SPDX-License-Identifier: Apache-2.0
"""Reports of a checkpoint and of a running query: pages that a browser opens without a network."""

from pyflinklike.doors import pin
from pyflinklike.spark.setup.requirements import pyspark_checked

with pyspark_checked():
    from pyflinklike.report.checkpoints import checkpoint_report
    from pyflinklike.report.page import Picture, Report
    from pyflinklike.report.progress_log import ProgressLog
    from pyflinklike.report.queries import query_report

__all__ = ["Picture", "ProgressLog", "Report", "checkpoint_report", "query_report"]

pin(globals())
