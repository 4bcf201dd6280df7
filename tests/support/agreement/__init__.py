# SPDX-License-Identifier: Apache-2.0
"""A Hypothesis state machine that plays a worker's life, to see whether backends agree.

    TestAgreement = agreement_machine(HashMapStateBackend(), MyStateBackend()).TestCase

The machine runs the same operations, one by one, on

* a *model*: plain dicts that follow Flink's rules for the five states, written here a second time
  and as simply as can be;
* for each backend three replicas: a lazy one, which commits when told to, and two eager ones, which
  commit after every step.  One of the eager ones rebuilds its working state from the log, the other
  goes on with what the backend kept, on the disk if it keeps it there.  So a change that is not
  written back shows at the next step, and does not wait until a commit, a loss and a read of the
  same entry coincide.

Every read is compared at once.  Between the operations everything happens that can happen to a
worker: commits, the loss of working state, a move to another worker whose working state is old and
is caught up, batches that fail, commits that never become durable, compaction, and snapshots that
move from one backend to another.

The domains are tiny (two keys, two user keys, three values, a TTL of two or three ms), since most
mistakes show with the second write of an entry.

With `background=True` cleanup in the background runs.  Then expired entries are never shown, and
the clock never goes back, so that cleanup must be unobservable except for the number of entries
that are stored.
"""

from __future__ import annotations

from pyflinklike._checks import lacking
from pyflinklike.backends.state_backend import StateBackend

try:
    from hypothesis.stateful import RuleBasedStateMachine

    from agreement.machine import BackendStateMachine
except ImportError as error:
    raise lacking(__name__, "testing", error) from error

__all__ = ["agreement_machine"]


def agreement_machine(
    *backends: StateBackend, background: bool = False, namespaced: bool = False
) -> type[RuleBasedStateMachine]:
    """Make a state machine that compares backends with the model and with one another.

    Args:
        backends: The backends to compare; one is enough, since it is compared with the model.
        background: Whether background cleanup runs; see the module.
        namespaced: Whether states and timers belong to two namespaces of one key, not to two keys;
            namespaces can be merged.

    Returns:
        A class whose `TestCase` unittest and pytest collect.
    """
    name = "BackgroundAgreement" if background else "Agreement"
    settings = {"backends": backends, "background": background, "namespaced": namespaced}
    return type(name, (BackendStateMachine,), settings)
