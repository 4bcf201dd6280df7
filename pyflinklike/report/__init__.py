# SPDX-License-Identifier: Apache-2.0
"""Reports of a checkpoint and of a running query: pages that a browser opens without a network."""

from pyflinklike._exports import export_public
from pyflinklike.spark._plan.requirements import pyspark_checked

with pyspark_checked():
    from pyflinklike.report.checkpoint_pages import checkpoint_report
    from pyflinklike.report.page import Picture, Report
    from pyflinklike.report.query_pages import ProgressLog, query_report

__all__ = ["Picture", "ProgressLog", "Report", "checkpoint_report", "query_report"]

export_public(globals())
