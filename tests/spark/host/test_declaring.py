# SPDX-License-Identifier: Apache-2.0
"""What Spark hears of a query's state before its first micro-batch; it needs PySpark, but no session."""

import pickle
import subprocess
import sys
import textwrap

import pytest
from program_support import Program

from pyflinklike import KeyedProcessFunction

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no transformWithState")

from pyspark.serializers import CloudPickleSerializer

from pyflinklike.spark._host.blob_map import log_variable
from pyflinklike.spark._host.state_declaration import DeclaringProcessor
from pyflinklike.spark._host.streaming_host import KeyGroupProcessor, SharingProcessor


class Nothing(KeyedProcessFunction):
    """Gives nothing; its module is none that the driver's process could import."""

    def process_element(self, value, ctx):
        return ()


class Declarations:
    """Notes what is declared, as Spark's handle does."""

    def __init__(self):
        self.declared = []

    def getMapState(self, *declared):
        """Of a map."""
        self.declared.append(declared)


def serving(operators):
    """What serves the key groups of operators that share a state operator."""
    processors = [KeyGroupProcessor(Program(Nothing()).plan()) for _ in range(operators)]
    return processors[0] if operators == 1 else SharingProcessor(processors)


def pickled(operators):
    """What Spark pickles into the plan of a query."""
    variables = [log_variable(place) for place in range(operators)]
    return CloudPickleSerializer().dumps(DeclaringProcessor(serving(operators), variables))


def test_the_state_is_declared_without_an_import_of_ours():
    """A query starts a second sooner for it; nor does the driver need the package, or the user's."""
    script = """
        import pickle, sys

        class Declarations:
            def getMapState(self, name, *types):
                print(name)

        processor = pickle.load(sys.stdin.buffer)
        processor.init(Declarations())
        processor.close()
        print([name for name in sys.modules if name.startswith("pyflinklike")])
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ended = subprocess.run(command, input=pickled(2), capture_output=True, check=True)

    assert ["log", "log_1", "[]"] == ended.stdout.decode().splitlines()


@pytest.mark.parametrize("operators", [1, 3])
def test_what_is_declared_on_the_driver_is_what_a_task_declares(operators):
    """By the processor that it becomes, in its order."""
    on_driver, in_task = Declarations(), Declarations()
    pickle.loads(pickled(operators)).init(on_driver)
    serving(operators).init(in_task)

    assert operators == len(on_driver.declared)
    assert in_task.declared == on_driver.declared


def test_the_jvm_has_no_type_to_parse():
    """PySpark has it parse a type that is text, twice, in each task of each micro-batch."""
    in_task = Declarations()
    serving(1).init(in_task)

    [(_, *types)] = in_task.declared
    assert ["struct<sequence:bigint>", "struct<blob:binary>"] == [
        each.simpleString() for each in types
    ]
