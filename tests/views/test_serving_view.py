# SPDX-License-Identifier: Apache-2.0
"""`ServingView`: two views as one, and the switch from one pair to the next."""

from __future__ import annotations

import operator
import threading

import pytest

from pyflinklike.errors import DeclarationTypeError, StateStoreError, StoreClosedError
from pyflinklike.views import MaterializedView, ServingView


def test_a_key_of_both_views_is_merged():
    """One of a single view is served as it is, one of neither is missing."""
    serving = ServingView({"a": 1, "b": 2}, {"b": 30, "c": 40}, merge=operator.add)

    assert [1, 32, 40, None] == [serving.get(key) for key in "abcx"]
    assert (7, 32) == (serving.get("x", 7), serving["b"])
    assert {"a": 1, "b": 32} == serving.get_many("abx")
    with pytest.raises(KeyError):
        serving["x"]


def test_the_order_of_merge_is_batch_then_speed():
    """Whatever the merge makes of it."""
    serving = ServingView({"a": "old"}, {"a": "new"}, merge=lambda batch, speed: (batch, speed))

    assert ("old", "new") == serving["a"]


def test_none_is_a_row():
    """It is merged as any other."""
    serving = ServingView({"a": None}, {"a": 1}, merge=lambda *rows: rows)

    assert (None, 1) == serving["a"]


def test_a_single_view_is_served_alone():
    """As after a Kappa reprocess."""
    assert {"a": 1} == ServingView({"a": 1}, None, merge=operator.add).get_many("ab")


def test_a_swap_is_rolled_back_as_often_as_there_were_swaps():
    """Each rollback returns the pair that it replaces."""
    one, two, three = {"v": 1}, {"v": 2}, {"v": 3}
    serving = ServingView(one, None, merge=operator.add)
    serving.swap(two, {"v": 20})
    serving.swap(three, None)

    assert 3 == serving["v"]
    assert (three, None) == serving.rollback()
    assert (22, (two, {"v": 20})) == (serving["v"], serving.rollback())
    assert (1, (one, None)) == (serving["v"], serving.layers)
    with pytest.raises(StateStoreError, match="swap"):
        serving.rollback()


def test_pairs_from_before_can_be_given_up():
    """And closed, once nobody needs them."""
    serving = ServingView({"v": 1}, None, merge=operator.add)
    serving.swap({"v": 2}, None)

    assert [({"v": 1}, None)] == serving.forget()
    with pytest.raises(StateStoreError):
        serving.rollback()


@pytest.mark.parametrize("pair", [(None, {}), ({}, 1), (3, None)], ids=str)
def test_what_has_no_rows_is_refused(pair):
    """And nothing changes."""
    serving = ServingView({"v": 1}, None, merge=operator.add)

    with pytest.raises(DeclarationTypeError, match="get"):
        serving.swap(*pair)
    assert 1 == serving["v"]
    with pytest.raises(DeclarationTypeError, match="merge"):
        ServingView({}, {}, merge=None)


def test_views_are_served_by_row(tmp_path):
    """With the past of one beside the present of another."""
    with (
        MaterializedView("batch", key="id", path=tmp_path) as batch,
        MaterializedView("speed", key="id", path=tmp_path) as speed,
    ):
        batch.apply([{"id": "a", "n": 1}], 0)
        speed.apply([{"id": "a", "n": 20}, {"id": "b", "n": 5}], 0)
        speed.apply([{"id": "a", "n": 30}], 1)
        serving = ServingView(batch, speed, merge=lambda b, s: {**b, "n": b["n"] + s["n"]})
        assert {"id": "a", "n": 31} == serving["a"]

        serving.swap(batch, speed.as_of(0))
        assert ({"id": "a", "n": 21}, {"id": "b", "n": 5}) == (serving["a"], serving["b"])


def test_a_closed_view_that_is_served_is_told(tmp_path):
    """A read is repeated only where the pair was swapped meanwhile."""
    view = MaterializedView("v", key="id", path=tmp_path)
    view.close()

    with pytest.raises(StoreClosedError):
        ServingView(view, None, merge=operator.add).get("a")


def test_readers_see_one_pair_or_the_next(tmp_path):
    """Also when the pair of before is closed as soon as it is swapped."""

    def pair(number):
        batch = MaterializedView(f"batch{number}", key="id", path=tmp_path)
        speed = MaterializedView(f"speed{number}", key="id", path=tmp_path)
        # The cut-off moves, the sum of both layers stays.
        batch.apply([{"id": key, "n": number} for key in "ab"], 0)
        speed.apply([{"id": key, "n": 100 - number} for key in "ab"], 0)
        return batch, speed

    serving = ServingView(*pair(0), merge=lambda batch, speed: batch["n"] + speed["n"])
    failures, done = [], threading.Event()

    def read():
        try:
            while not done.is_set():
                assert {"a": 100, "b": 100} == serving.get_many("ab")
        except Exception as error:  # told by the main thread
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 13):
        serving.swap(*pair(number))
        for layers in serving.forget():
            layers.batch.close()
            layers.speed.close()
    done.set()
    for reader in readers:
        reader.join()
    for view in serving.layers:
        view.close()

    assert [] == failures
