# SPDX-License-Identifier: Apache-2.0
"""Metrics out of a stream's progress, in every form that Spark gives it."""

from __future__ import annotations

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark import metrics_of

EXPECTED = Row(records=3, late_records=0, user={"fives": 2})
VALUES = [3, 0, {"fives": 2}]
NAMES = [{"name": name, "nullable": False} for name in ("records", "late_records", "user")]
CLASSIC = {"records": 3, "late_records": 0, "user": {"fives": 2}}
CONNECT = {"values": VALUES, "schema": {"type": "struct", "fields": NAMES}}


def progress(observed):
    """A micro-batch as Spark's JSON has it."""
    identity = "0d3c7f0e-9c6b-4f2a-8a63-0d8a0a4e2f11"
    return {
        "id": identity,
        "runId": identity,
        "name": None,
        "timestamp": "",
        "batchId": 0,
        "batchDuration": 1,
        "durationMs": {},
        "eventTime": {},
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "stateOperators": [],
        "sources": [],
        "observedMetrics": observed,
        "sink": {"description": "", "numOutputRows": 0},
    }


@pytest.mark.parametrize("form", [CLASSIC, CONNECT], ids=["a dict", "values and schema"])
def test_metrics_are_the_same_in_every_form(form):
    """As JSON, as Spark Connect makes an object of it, and in a listener's event."""
    json = progress({"counts": form})
    as_object = StreamingQueryProgress.fromJson(json)
    event = QueryProgressEvent(as_object)

    assert [EXPECTED] * 3 == [metrics_of(each, "counts") for each in (json, as_object, event)]


@pytest.mark.parametrize("said", [{}, {"live_entries": None}], ids=["left out", "null"])
def test_what_no_key_group_holds_is_none(said):
    """JSON may leave out what is null; what a function alone is observed for stays as it is."""
    served, user = (
        metrics_of(progress({"counts": {"key_groups": 0, **said}}), "counts"),
        {"user": {}},
    )

    assert (None, None, None) == (served.live_entries, served.timers, served.state_bytes)
    assert user == metrics_of(progress({"counts": user}), "counts").asDict()


_INPUTS = {"records_1": 3, "latest_1": 90_000, "records_2": 0, "latest_2": None}
_INPUT_FIELDS = [{"name": name} for name in _INPUTS]


@pytest.mark.parametrize(
    "form",
    [_INPUTS, {"values": list(_INPUTS.values()), "schema": {"fields": _INPUT_FIELDS}}],
    ids=["a dict", "values and schema"],
)
def test_each_of_two_inputs_is_told_of(form):
    """With the operator's metrics, and by no name of its own."""
    json = progress({"counts": CLASSIC, "counts (inputs)": form})
    told = metrics_of(json, "counts")
    assert [(3, 90_000), (0, None)] == [(each.records, each.latest) for each in told.inputs]
    with pytest.raises(DeclarationValueError, match=r"choose from \['counts'\]"):
        metrics_of(json, "count")


def test_metrics_of_a_trigger_without_a_batch_are_none():
    """Before the first batch there is no progress, and where nothing was to do it observes nothing."""
    idle = progress({})
    del idle["observedMetrics"]

    assert [None] * 3 == [metrics_of(each, "counts") for each in (None, progress({}), idle)]


def test_an_operator_that_is_not_there_is_named():
    """A wrong uid is an error with the right ones, and not the same as no metrics."""
    with pytest.raises(DeclarationValueError, match=r"got 'count'; choose from \['a', 'counts'\]"):
        metrics_of(progress({"counts": CLASSIC, "a": CLASSIC}), "count")


@pytest.mark.parametrize("what", [5, "0", object(), {"observedMetrics": 5}])
def test_what_is_no_progress_is_refused(what):
    """The message says where progress comes from."""
    with pytest.raises(DeclarationTypeError, match=r"example query\.lastProgress"):
        metrics_of(what, "counts")
