# SPDX-License-Identifier: Apache-2.0
"""Generated elements: on the local runner, through the functions of Spark, and how they are declared."""

from __future__ import annotations

import pyarrow as pa
import pytest
from local_support import local

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, UserFunctionError
from pyflinklike.pyflink.common import Types, WatermarkStrategy
from pyflinklike.pyflink.datastream.connectors import (
    DataGeneratorSource,
    RateLimiterStrategy,
)


def stream(source, **settings):
    """On the local runner."""
    return local(**settings).from_source(source, WatermarkStrategy.no_watermarks(), "made")


@pytest.mark.parametrize("parallelism", ["1", "3", "7"])
@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_as_many_elements_as_were_asked_for(parallelism, mode):
    """Each number once, however many instances share them, also where these are more."""
    source = DataGeneratorSource(lambda n: n * n, 5, type_info=Types.LONG())
    settings = {"parallelism__default": parallelism, "execution__runtime-mode": mode}

    made = stream(source, **settings)

    assert (Types.LONG(), [0, 1, 4, 9, 16]) == (made.get_type(), sorted(made.execute_and_collect()))


def test_without_an_end_as_many_as_are_taken():
    """The local runner does not wait."""
    source = DataGeneratorSource(str, rate_limiter_strategy=RateLimiterStrategy.per_second(1))

    assert ["0", "1", "2"] == list(stream(source).execute_and_collect(limit=3))


def test_the_numbers_of_spark_become_elements():
    """Whatever numbers a task gets."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    from pyflinklike.pyflink._spark.data_frame_source import frame_source

    rate = RateLimiterStrategy.per_second(5)
    frame = frame_source(DataGeneratorSource(str, None, rate, Types.STRING()), is_streaming=True)

    batch = pa.record_batch(
        {"timestamp": pa.array([None, None], pa.timestamp("us")), "value": [7, 3]}
    )

    assert [("7", None), ("3", None)] == list(frame.elements(batch))


def test_elements_have_their_type():
    """What does not fit fails the job, with the number of which it came."""
    source = DataGeneratorSource(lambda n: 2**31 + n, 2, type_info=Types.INT())

    with pytest.raises(UserFunctionError, match=r"number 0: .*2147483648"):
        list(stream(source).execute_and_collect())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((5, 1), DeclarationTypeError, "takes a number, got 5"),
        ((str,), DeclarationValueError, "a count or a rate, got none"),
        ((str, 1, RateLimiterStrategy(1)), DeclarationValueError, "got both"),
        ((str, 0), DeclarationValueError, "above 0, got 0"),
        ((str, True), DeclarationValueError, "above 0, got True"),
        ((str, None, 5), DeclarationTypeError, "a RateLimiterStrategy, got 5"),
        ((str, 1, None, int), DeclarationTypeError, "is a TypeInformation"),
    ],
)
def test_what_is_declared_wrongly(arguments, error, message):
    """Is told at once."""
    with pytest.raises(error, match=message):
        DataGeneratorSource(*arguments)


def test_a_rate_is_a_whole_number():
    """As Spark's source has it."""
    with pytest.raises(DeclarationValueError, match=r"an int above 0, got 0\.5"):
        RateLimiterStrategy.per_second(0.5)
