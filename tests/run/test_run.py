# SPDX-License-Identifier: Apache-2.0
"""Scripts that import PyFlink run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pyflinklike
from pyflinklike.errors import DeclarationError
from pyflinklike.run import install, uninstall

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

def main(word):
    env = StreamExecutionEnvironment.get_execution_environment()
    counts = env.from_collection(["a b", "b"]).flat_map(str.split)
    counts = counts.map(lambda w: (w + word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    counts.key_by(lambda c: c[0]).sum(1).print()
    env.execute()

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.fixture
def installed():
    """PyFlink's names mean this library during a test."""
    install()
    yield
    uninstall()


def run(*arguments, cwd):
    """The lines of `python -m pyflinklike.run`, and what it says on failure."""
    command = [sys.executable, "-m", "pyflinklike.run", *arguments]
    done = subprocess.run(
        command, cwd=cwd, env={"PYTHONPATH": str(ROOT)}, text=True, capture_output=True, check=False
    )
    return done.stdout.splitlines(), done.stderr


def test_a_script_runs_as_it_is(tmp_path):
    """With its arguments, and with its functions in `__main__`."""
    (tmp_path / "job.py").write_text(SCRIPT, encoding="utf-8")

    lines, _ = run("--target", "local", "job.py", "!", cwd=tmp_path)

    assert ["(a!,1)", "(b!,1)", "(b!,2)"] == lines


def test_settings_of_the_command_line_reach_the_script(tmp_path):
    """In batch mode a sum is given out once."""
    (tmp_path / "job.py").write_text(SCRIPT, encoding="utf-8")

    settings = ("-D", "execution.runtime-mode=BATCH", "-D", "execution.target=local")
    lines, _ = run(*settings, "job.py", "!", cwd=tmp_path)

    assert ["(a!,1)", "(b!,2)"] == lines


def test_a_module_has_both_names(installed):
    """It is one module, whichever name it was imported by first."""
    import pyflink.datastream.functions

    import pyflinklike.datastream.functions

    assert pyflink.datastream.functions is pyflinklike.datastream.functions
    assert pyflink is pyflinklike
    assert "pyflinklike.datastream.functions" == pyflink.datastream.functions.__spec__.name


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("import pyflink.table", "use Spark SQL"),
        ("from pyflink.table.udf import udf", "use Spark SQL"),
        ("from pyflink.datastream.connectors.pulsar import PulsarSource", "Spark's"),
        ("from pyflink.datastream import SinkFunction", "use sink_to or print"),
        ("from pyflink.common import RestartStrategies", "spark.task.maxFailures"),
        (
            "from pyflink.datastream.connectors.file_system import StreamingFileSink",
            "use FileSink and sink_to",
        ),
        ("import pyflink.surprise", "its reference says what there is"),
        ("from pyflink.datastream import Surprise", "cannot import name"),
    ],
)
def test_what_is_not_there_is_an_import_error_with_the_remedy(installed, statement, remedy):
    """A module or a name, known to PyFlink or to nobody."""
    with pytest.raises(ImportError, match=remedy):
        exec(statement)


def test_a_pyflink_that_is_installed_is_not_hidden_unless_asked(tmp_path, monkeypatch):
    """Whoever has both decides."""
    (tmp_path / "pyflink").mkdir()
    (tmp_path / "pyflink" / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(DeclarationError, match="would be hidden"):
        install()
    install(shadow=True)
    try:
        import pyflink

        assert pyflink is pyflinklike
    finally:
        uninstall()


def test_installing_twice_is_installing_once(installed):
    """And once it is taken back, nobody finds the names."""
    install()
    uninstall()

    with pytest.raises(ModuleNotFoundError):
        import pyflink  # noqa: F401
