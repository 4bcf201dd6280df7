# SPDX-License-Identifier: Apache-2.0
"""Values as keys: what is one key and what is another."""

from __future__ import annotations

from decimal import Decimal

from type_support import DOUBLE, LONG, PICKLED, STRING, same

from pyflinklike.types import Pickled, Types


def test_a_zero_loses_its_sign_in_a_key_of_fields_only():
    """A tuple as a value keeps -0.0."""
    type_info = Types.TUPLE([DOUBLE, LONG])
    assert ("(-0.0, 1)", "(0.0, 1)") == (
        repr(type_info.freeze((-0.0, 1))),
        repr(type_info.freeze_key((-0.0, 1))),
    )


def test_pickled_keys_differ_as_their_pickles_do():
    """1, 1.0 and True are three keys; str, int and bytes stay as they are."""
    keys = [1, 1.0, True, "1", b"1", (1,), (1.0,), (True,)]
    stored = [PICKLED.freeze_key(key) for key in keys]
    assert len(keys) == len(set(stored))
    assert [int, Pickled, Pickled, str, bytes] == [type(key) for key in stored[:5]]
    assert same(keys, [PICKLED.thaw_key(key) for key in stored])


def test_a_pickle_is_not_the_same_bytes_of_the_user():
    """A key of bytes that happens to be the pickle of another key is another key."""
    key = PICKLED.freeze_key(True)
    assert key != bytes(key)
    assert bytes(key) != key
    assert 2 == len({key, PICKLED.freeze_key(bytes(key))})


def test_pickled_keys_do_not_depend_on_identity():
    """Equal keys are one key whether or not their parts are one object."""
    part = "".join(["a", "b"])
    assert PICKLED.freeze_key((part, part)) == PICKLED.freeze_key((part, "".join(["a", "b"])))


def test_pickled_keys_may_hold_themselves():
    """A key that holds itself is pickled in the ordinary way."""
    key: list[object] = []
    key.append(key)
    assert isinstance(PICKLED.freeze_key(key), Pickled)


def test_decimals_of_another_scale_are_other_keys():
    """1.0 and 1.00 differ, as in Java, and keep their scale."""
    type_info = Types.BIG_DEC()
    assert type_info.freeze_key(Decimal("1.0")) != type_info.freeze_key(Decimal("1.00"))
    assert "1.00" == str(type_info.thaw(type_info.freeze(Decimal("1.00"))))


def test_maps_as_keys_do_not_depend_on_order():
    """Equal dicts are one key; as values they keep their order."""
    type_info = Types.MAP(STRING, LONG)
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert type_info.freeze_key(one) == type_info.freeze_key(other)
    assert ["b", "a"] == list(type_info.thaw(type_info.freeze(other)))


def test_rebuilding_runs_no_pickle():
    """A pickle comes back from its column unopened, harmful or not."""
    harmful = Pickled(b"\x80\x05cbuiltins\nexit\n)R.")
    assert [harmful] == PICKLED.from_arrow(PICKLED.to_arrow([harmful]))
