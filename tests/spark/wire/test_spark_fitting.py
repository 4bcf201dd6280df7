# SPDX-License-Identifier: Apache-2.0
"""The table of Python's values and column types on Spark: what fits is in the result, and the rest ends the query.

Every cell is tried in a moment without a JVM (`test_fitting`).  Here all values that fit go through
one batch and one stream, each in the main output and in a side output.
"""

from __future__ import annotations

import fitting_table
import pytest
from fitting_table import FITS, SPARK_TYPES, VALUES, ZONE, as_read
from pyspark.sql import types as st
from spark_support import Feed, drain, pickle_by_value

from pyflinklike import KeyedProcessFunction, OutputTag
from pyflinklike.spark import key_by
from pyflinklike.spark._wire.system_columns import OUTPUT_TAG

pickle_by_value(__name__)
pickle_by_value(fitting_table.__name__)

SIDE = OutputTag("side")
COLUMNS = st.StructType(
    [
        st.StructField("name", st.StringType()),
        *(st.StructField(f"c{at}", kind) for at, kind in enumerate(SPARK_TYPES.values())),
    ]
)
# A memoryview cannot go to Spark's workers.
NAMES = [name for name in VALUES if name != "memoryview"]
ROWS = {
    name: (name, *(VALUES[name] if name in fits else None for fits in FITS.values()))
    for name in NAMES
}
EXPECTED = {name: [as_read(fits.get(name)) for fits in FITS.values()] for name in NAMES}


class Yields(KeyedProcessFunction):
    """Puts out the row of the name that an element has, to the main and to a side output."""

    def __init__(self, rows):
        self.rows = rows

    def process_element(self, value, ctx):
        row = self.rows[value.name]
        yield row
        yield SIDE, row


@pytest.fixture
def in_new_york(spark):
    """A session in whose zone an hour comes twice."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield
    spark.conf.set("spark.sql.session.timeZone", zone)


def read(rows):
    """What the columns have for each name, by output."""
    found = {None: {}, "side": {}}
    for row in rows:
        tag = row[OUTPUT_TAG]
        name, *values = row.side if tag else row[: len(COLUMNS)]
        found[tag][name] = [as_read(value) for value in values]
    return found


@pytest.mark.telling
@pytest.mark.usefixtures("in_new_york")
@pytest.mark.parametrize("streamed", [False, True], ids=["batch", "stream"])
def test_every_value_that_fits_is_in_the_result(spark, tmp_path, streamed):
    """In the main and in a side output, as Spark collects it in UTC."""
    feed = Feed(spark, tmp_path / "in", "name string")
    feed.add([(name,) for name in NAMES])
    keyed = key_by(feed.stream() if streamed else feed.bounded(), "name")
    sides = {SIDE: COLUMNS}

    result = keyed.process(Yields(ROWS), COLUMNS, side_outputs=sides, max_parallelism=4)
    if streamed:
        (rows,) = drain(result, tmp_path / "checkpoint").values()
    else:
        rows = result.collect()

    assert {None: EXPECTED, "side": EXPECTED} == read(rows)
