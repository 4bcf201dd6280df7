# SPDX-License-Identifier: Apache-2.0
"""How large the parts of a savepoint are while it is carried into a log."""

from __future__ import annotations

from pyflinklike import KeyedProcessFunction, ListStateDescriptor, Types, ValueStateDescriptor
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.state_processor._savepoints.stored_sections import SECTION_BYTES
from pyflinklike.testing import KeyedProcessHarness

_KIB = bytes(1024)


class Holding(KeyedProcessFunction):
    """Keeps what it is given, each once; yields what the key has for nothing."""

    def open(self, runtime_context):
        kind = Types.PRIMITIVE_ARRAY(Types.BYTE())
        self.held = runtime_context.get_state(ValueStateDescriptor("held", kind))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", kind))

    def process_element(self, value, ctx):
        _, given = value
        if given is None:
            yield self.held.value(), list(self.list.get())
        elif isinstance(given, list):
            self.list.add_all(given)
        else:
            self.held.update(given)


def harness(restore=None):
    """A harness whose key is the first field."""
    return KeyedProcessHarness(
        Holding(), lambda value: value[0], key_type=Types.LONG(), restore=restore
    )


def test_large_state_is_in_several_sections_in_whatever_order_they_come(tmp_path):
    """Each is a value in a row of Spark, which sorts them; a list that they share keeps its order."""
    elements = [b"%05d" % at + _KIB for at in range(6_000)]
    with harness() as before:
        before.process_elements([((key, b"%d" % key + _KIB), None) for key in range(5_000)])
        before.process_element((0, elements))
        write_savepoint(before, tmp_path / "savepoint")
    segment = open_savepoint(tmp_path / "savepoint").segment()
    sizes: dict[str, list[int]] = {}
    for at, payload in segment.sections:
        sizes.setdefault(segment.declarations[at].name, []).append(len(payload))
    segment.sections.reverse()

    with harness(segment.to_bytes()) as after:
        found = after.process_element((0, None)), after.process_element((4_999, None))

    assert ([(b"0" + _KIB, elements)], [(b"4999" + _KIB, [])]) == found
    assert {"held": 2, "list": 2} == {name: len(each) for name, each in sizes.items()}
    assert all(size <= SECTION_BYTES for each in sizes.values() for size in each)
