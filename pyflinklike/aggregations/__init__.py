# SPDX-License-Identifier: Apache-2.0
"""Folds of the elements of each key, as in PyFlink: reduce, sum, min, max, min_by and max_by.

    key_by(payments, "user").sum("amount")                        # on Spark
    KeyedProcessHarness(Fold(Sum("amount")), key_selector=...)    # in a test

On a DataFrame they are methods of `pyflinklike.spark.KeyedDataFrame`.  `Sum`, `Min`, `Max`, `MinBy`
and `MaxBy` are reduce functions like any other, also for a `ReducingStateDescriptor`.
"""

from pyflinklike._exports import export_public
from pyflinklike.aggregations.fold import Fold, Max, MaxBy, Min, MinBy, Sum

__all__ = ["Fold", "Max", "MaxBy", "Min", "MinBy", "Sum"]

export_public(globals())
