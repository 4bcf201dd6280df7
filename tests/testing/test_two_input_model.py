# SPDX-License-Identifier: Apache-2.0
"""A function of two inputs agrees with its rules over dicts, whatever comes when."""

from hypothesis import given
from hypothesis import strategies as st
from two_input_support import BACKENDS, Enrich, EnrichModel

from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.testing import KeyedTwoInputHarness

NUMBERS = st.sampled_from([1, 2])
KEYS = st.sampled_from("ab")
TIMES = st.integers(0, 6)
ELEMENTS = st.tuples(st.just("element"), NUMBERS, KEYS, TIMES)
WATERMARKS = st.tuples(st.just("watermark"), NUMBERS, TIMES)
RESTARTS = st.tuples(st.just("restart"), st.integers(0, len(BACKENDS) - 1))
STEPS = st.lists(st.one_of(ELEMENTS, ELEMENTS, WATERMARKS, RESTARTS), max_size=20)


def harness(backend, restore=None):
    """Of `Enrich`."""
    key = lambda element: element[0]  # noqa: E731
    return KeyedTwoInputHarness(Enrich(), key, state_backend=BACKENDS[backend], restore=restore)


def element_of(number, key, at):
    """The element of a step, unlike all others."""
    return (key, at) if number == 1 else (key, f"name{at}")


@given(STEPS)
def test_two_inputs_agree_with_dicts(steps):
    """Elements and watermarks of either input in any order, restarted anywhere on any backend.

    A restart loses the watermarks, as every restart does; they are said again.  A watermark that
    does not move the smaller one fires nothing, as in Flink, whatever was registered since.
    """
    model, h = EnrichModel(), harness(0)
    expected, actual = [], []
    told = MIN_WATERMARK
    for at, (what, *arguments) in enumerate(steps):
        if what == "element":
            number, key, timestamp = arguments
            element = element_of(number, key, at)
            expected.append(model.element(number, *element, timestamp))
            process = h.process_element1 if number == 1 else h.process_element2
            actual.append(process(element, timestamp))
        elif what == "watermark":
            number, time = arguments
            time = max(time, model.watermarks[number])
            moves = min(time, model.watermarks[3 - number]) > told
            fired = model.watermark(number, time) if moves else []
            model.watermarks[number] = time
            told = min(model.watermarks.values())
            expected.append(sorted(fired, key=str))
            advance = h.process_watermark1 if number == 1 else h.process_watermark2
            actual.append(sorted(advance(time), key=str))
        else:
            blob = h.snapshot()
            h.close()
            h = harness(arguments[0], restore=blob)
            told = min(model.watermarks.values())
            moves = told > MIN_WATERMARK
            fired = model.watermark(1, model.watermarks[1]) if moves else []
            expected.append(sorted(fired, key=str))
            said = h.process_watermark1(model.watermarks[1])
            actual.append(sorted(said + h.process_watermark2(model.watermarks[2]), key=str))
    h.close()

    assert expected == actual
