# SPDX-License-Identifier: Apache-2.0
"""Jobs that say which instance of an operator gets which elements."""

from __future__ import annotations

from jobs.collection import job
from jobs.keyed_jobs import first, pairs

from pyflinklike.pyflink.datastream import MapFunction


class Where(MapFunction):
    """Tells which instance of how many has got an element."""

    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()
        self.count = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return value, self.index, self.count


@job(*[(value, index, 3) for value in ("a", "b") for index in range(3)])
def a_copy_for_each_instance(env):
    """Each knows its number."""
    return env.from_collection(["a", "b"]).broadcast().map(Where()).set_parallelism(3)


@job((0, 0, 3), (4, 1, 3), (8, 2, 3), (5, 2, 3))
def instances_that_the_program_tells(env):
    """The partitioner is given a key and the number of instances."""
    numbers = env.from_collection([0, 4, 8, 5])
    return (
        numbers.partition_custom(lambda key, n: key % n, lambda n: n)
        .map(Where())
        .set_parallelism(3)
    )


@job((0, 0, 2), (1, 1, 2), (3, 1, 2))
def instances_of_further_operators(env):
    """What one instance gives comes to that of the same number; what a filter leaves out does not."""
    numbers = env.from_collection([0, 1, 2, 3]).partition_custom(
        lambda key, n: key % n, lambda n: n
    )
    kept = numbers.filter(lambda n: n != 2).set_parallelism(2)
    return kept.map(lambda n: n).set_parallelism(2).map(Where()).set_parallelism(2)


@job(("a", 1), ("a", 2), ("a", 3), ("a", 4), batch=[("a", 4)])
def copies_with_keys(env):
    """Two of each element come to the one instance that has the key."""
    ones = env.from_collection([("a", 1), ("a", 1)])
    copies = ones.broadcast().map(lambda pair: pair).set_parallelism(2)
    return copies.key_by(first).sum(1)


@job(*[(sums, index, 2) for sums in (1, 3) for index in range(2)], batch=[(3, 0, 2), (3, 1, 2)])
def copies_of_what_a_keyed_operator_gives(env):
    """Behind a shuffle as before one."""
    sums = env.from_collection([("a", 1), ("a", 2)]).key_by(first).sum(1)
    return sums.map(lambda pair: pair[1]).broadcast().map(Where()).set_parallelism(2)


@job("a", "a", "b")
def copies_beside_a_stream_that_has_none(env):
    """Their union has the copies of the one only."""
    copies = env.from_collection(["a"]).broadcast().map(str).set_parallelism(2)
    return copies.union(env.from_collection(["b"])).map(lambda text: text)


@job(*[("a", 1), ("b", 10), ("a", 2), ("b", 5), ("a", 3)] * 4)
def elements_that_are_dealt_out(env):
    """By whichever rule, each is there once."""
    stream = pairs(env)
    dealt = [stream.rebalance(), stream.rescale(), stream.shuffle(), stream.forward()]
    arms = [each.map(lambda pair: pair) for each in dealt]
    return arms[0].union(*arms[1:])
