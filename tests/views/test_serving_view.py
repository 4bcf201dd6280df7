# SPDX-License-Identifier: Apache-2.0
"""The recipe for two views as one, and for the switch from one pair to the next."""

from __future__ import annotations

import threading

import pytest
from example_support import EXAMPLES

from pyflinklike.errors import StoreClosedError
from pyflinklike.views import MaterializedView


@pytest.fixture
def serving_view(monkeypatch):
    """The class of the recipe."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from serving_view import ServingView

    return ServingView


def summed(batch, speed):
    """The row of both."""
    return {"id": batch["id"], "n": batch["n"] + speed["n"]}


def test_rows_of_both_views_are_merged_until_a_rollback(serving_view, tmp_path):
    """A row of a single view is served as it is."""
    with (
        MaterializedView("batch", key="id", path=tmp_path) as batch,
        MaterializedView("speed", key="id", path=tmp_path) as speed,
    ):
        batch.apply([{"id": "a", "n": 1}], 0)
        speed.apply([{"id": "a", "n": 20}, {"id": "b", "n": 5}], 0)
        serving = serving_view(batch, speed, summed)
        both = {"a": {"id": "a", "n": 21}, "b": {"id": "b", "n": 5}}
        assert both == serving.get_many("abx")

        serving.swap(batch, None)
        assert ({"id": "a", "n": 1}, None) == (serving.get("a"), serving.get("b"))
        assert ((batch, None), both) == (serving.rollback(), serving.get_many("ab"))


def test_a_closed_view_that_is_served_is_an_error(serving_view, tmp_path):
    """A read is repeated only if the pair was swapped meanwhile."""
    view = MaterializedView("v", key="id", path=tmp_path)
    view.close()

    with pytest.raises(StoreClosedError):
        serving_view(view, None, summed).get("a")


def test_readers_see_one_pair_or_the_next(serving_view, tmp_path):
    """Also if the pair of before is closed as soon as it is swapped."""

    def pair(number):
        batch = MaterializedView(f"batch{number}", key="id", path=tmp_path)
        speed = MaterializedView(f"speed{number}", key="id", path=tmp_path)
        # The cut-off moves, the sum of both layers stays.
        batch.apply([{"id": key, "n": number} for key in "ab"], 0)
        speed.apply([{"id": key, "n": 100 - number} for key in "ab"], 0)
        return batch, speed

    serving = serving_view(*pair(0), lambda batch, speed: batch["n"] + speed["n"])
    failures, done = [], threading.Event()

    def read():
        try:
            while not done.is_set():
                assert {"a": 100, "b": 100} == serving.get_many("ab")
        except Exception as error:  # reported by the main thread
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 13):
        serving.swap(*pair(number))
        for view in serving.former.pop():
            view.close()
    done.set()
    for reader in readers:
        reader.join()
    for view in serving.layers:
        view.close()

    assert [] == failures
