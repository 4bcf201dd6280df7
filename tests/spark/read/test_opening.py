# SPDX-License-Identifier: Apache-2.0
"""Opening a replica of a query that purges batches faster than they can be read; without a JVM."""

import attrs
import pytest

from pyflinklike.errors import SparkSetupError
from pyflinklike.queryable_state.image import Share
from pyflinklike.queryable_state.replica_source import CheckpointSource


@attrs.define
class Purged(CheckpointSource):
    """Of its batches the first ones are gone by the time they are read."""

    commits: list = attrs.field(factory=list)
    gone: frozenset = frozenset()
    reads: list = attrs.field(factory=list)

    def _latest(self):
        last = self.commits[0]
        self.reads.append(last)
        if len(self.commits) > 1:
            self.commits.pop(0)
        if last in self.gone:
            raise SparkSetupError(f"batch {last} is gone")
        return last

    def _commits(self, where):
        return dict.fromkeys(range(self.commits[0] + 1), 0)


def purged(commits, gone):
    """A source over no checkpoint."""
    return Purged(None, "tested", 0, Share(), list(commits), frozenset(gone))


def test_a_batch_that_was_purged_meanwhile_is_given_up_for_a_newer_one():
    """Also if that happens again."""
    source = purged([3, 6, 9], gone=[3, 6])
    assert (9, [3, 6, 9]) == (source.latest(), source.reads)


def test_what_cannot_be_read_and_is_the_last_is_an_error():
    """Nothing newer will make it better."""
    source = purged([3], gone=[3])
    with pytest.raises(SparkSetupError, match="batch 3"):
        source.latest()
    assert [3, 3] == source.reads


def test_a_query_that_is_always_faster_is_an_error_in_the_end():
    """Of the last batch that was tried."""
    source = purged(range(50), gone=range(50))
    with pytest.raises(SparkSetupError, match="is gone"):
        source.latest()
    assert len(source.reads) < 10
