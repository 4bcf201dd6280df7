# SPDX-License-Identifier: Apache-2.0
"""A backend as a configuration, and its beginning and end."""

from __future__ import annotations

import copy
import pickle

from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.testing.conformance.instances import MAP, ConformanceTests, Instance

__all__ = ["LifecycleConformance"]


class LifecycleConformance(ConformanceTests):
    """A configuration is a value; the tables made from it are opened, closed and independent."""

    # The configuration

    def test_a_state_backend_survives_pickling(self) -> None:
        """The configuration is sent to the workers, and equal by value there."""
        before = self.state_backend()

        assert before == pickle.loads(pickle.dumps(before))

    def test_equal_state_backends_have_one_hash(self) -> None:
        """A configuration can be a key, as immutable values can."""
        assert hash(self.state_backend()) == hash(self.state_backend())

    def test_state_backends_of_equal_settings_are_equal(self) -> None:
        """A configuration is a value, not an identity."""
        assert self.state_backend() == self.state_backend()

    def test_making_a_keyed_state_backend_leaves_the_configuration_as_it_was(self) -> None:
        """A configuration holds settings and no state."""
        state_backend = self.state_backend()
        before = copy.deepcopy(state_backend)
        state_backend.create_keyed_state_backend(CurrentKey(), "tested").close()

        assert before == state_backend

    def test_what_is_taken_warm_is_kept_no_more(self, one: Instance) -> None:
        """A group whose batch fails after it was taken must be gone."""
        one.backend.keep_warm(WorkingState(3, nonce=bytes(16)))
        taken = one.backend.take_warm(3)

        assert taken is None or taken.nonce == bytes(16)
        assert one.backend.take_warm(3) is None

    def test_released_tables_serve_the_next_task_of_another_owner(self) -> None:
        """What they keep warm then is the new owner's; the former's is still its own."""
        one, other = self._open(), self._open()
        one.backend.owner = other.backend.owner = "former"
        one.enter(3)
        one.fill(MAP, "k")
        one.backend.drain()
        one.backend.keep_warm(WorkingState(3, nonce=b"f" * 16, tables=one.groups[3]))
        one.backend.release()

        one.backend.owner = "later"
        assert one.backend.take_warm(3) is None
        one.groups.clear()
        one.enter(3)
        assert {} == one.contents()
        one.fill(MAP, "l")
        assert {"map": {"l": {7: "l"}}} == one.contents()

        taken = other.backend.take_warm(3)
        assert taken is None or taken.nonce == b"f" * 16
        one.backend.close()
        other.backend.close()

    # The end

    def test_a_backend_can_be_closed(self) -> None:
        """A backend may be closed with changes that nobody drained."""
        instance = self._open()
        instance.fill(MAP, "k")

        assert None is instance.backend.close()  # type: ignore[func-returns-value]

    def test_backends_do_not_see_each_other(self, one: Instance, other: Instance) -> None:
        """The state of one operator is nobody else's."""
        one.fill(MAP, "k")

        assert {} == other.contents()
