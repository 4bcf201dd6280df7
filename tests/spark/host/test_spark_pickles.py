# SPDX-License-Identifier: Apache-2.0
"""The switch that refuses pickles, on Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from spark_support import pickle_by_value

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.spark import key_by
from pyflinklike.state_processor import read_savepoint

pickle_by_value(__name__)


class Pickling(KeyedProcessFunction):
    """Declares what has to be unpickled."""

    def open(self, runtime_context):
        """One state."""
        runtime_context.get_state(ValueStateDescriptor("s", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        """Never reached."""
        yield (value.k,)


def test_a_query_that_allows_no_pickles_refuses_to_declare_them(spark):
    """In the worker, where the function is opened; the state is named."""
    df = spark.range(3).select(F.col("id").alias("k"))
    result = key_by(df, "k").process(Pickling(), "k long", allow_pickle=False)
    with pytest.raises(Exception, match="state 's': nothing is unpickled"):
        result.collect()


def test_the_switch_is_checked_before_anything_is_read(spark, tmp_path):
    """By whoever takes it."""
    df = spark.range(3).select(F.col("id").alias("k"))
    with pytest.raises(DeclarationTypeError, match="allow_pickle takes True or False"):
        key_by(df, "k").process(Pickling(), "k long", allow_pickle="no")
    with pytest.raises(DeclarationTypeError, match="allow_pickle takes True or False"):
        read_savepoint(spark, tmp_path, allow_pickle="no")
