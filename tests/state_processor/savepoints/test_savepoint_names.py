# SPDX-License-Identifier: Apache-2.0
"""Names of states and operators as folders of a savepoint."""

import pytest

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.state_processor._savepoints.manifest import folder_of
from pyflinklike.testing import KeyedProcessHarness

ODD = ["..", ".", "_x", ".x", "__", " ", "a/b", "*", "[a]", "%41", "é", "\n", "timers"]
LONG = ["名" * 60, "x" * 300, "x" * 299 + "y"]


class Keeping(KeyedProcessFunction):
    """A value for each name."""

    def open(self, runtime_context):
        self.values = [
            runtime_context.get_state(ValueStateDescriptor(name, Types.LONG()))
            for name in ODD + LONG
        ]

    def process_element(self, value, ctx):
        for number, each in enumerate(self.values):
            each.update(number)


def test_a_state_may_have_any_name(tmp_path):
    """Each has a folder of its own, though names may be longer than a file system's."""
    path = tmp_path / "savepoint"
    with KeyedProcessHarness(Keeping(), lambda value: value, key_type=Types.LONG()) as harness:
        harness.process_element(1)
        write_savepoint(harness, path)
    saved = open_savepoint(path)
    values = [saved.dataset(name).to_table().column("value").to_pylist() for name in ODD + LONG]
    assert [[number] for number in range(len(ODD + LONG))] == values


@pytest.mark.parametrize("name", ODD + LONG)
def test_a_folder_is_within_its_savepoint_and_seen_by_hadoop(name):
    """Which hides what begins with a dot or an underscore; no file system has to encode it."""
    for folder, depth in ((folder_of(name, None), 3), (folder_of("uid", name), 4)):
        fits = [
            each[0] not in "._" and len(each) < 255 and each.isascii() for each in folder.split("/")
        ]
        assert [True] * depth == fits
