# SPDX-License-Identifier: Apache-2.0
"""Scripts that import PyFlink run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyflinklike.errors import DeclarationError
from pyflinklike.run import install, uninstall

ROOT = Path(__file__).resolve().parents[3]

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

    import pyflinklike.pyflink.datastream.functions

    assert pyflink.datastream.functions is pyflinklike.pyflink.datastream.functions
    assert pyflink is pyflinklike.pyflink
    assert "pyflinklike.pyflink.datastream.functions" == pyflink.datastream.functions.__spec__.name


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("import pyflink.fn_execution.coders", "inside PyFlink"),
        ("from pyflink.dataset import ExecutionEnvironment", "DataStream in batch mode"),
        ("import pyflink.shell", "import pyflinklike.pyflink.datastream"),
        ("from pyflink.table import Surprise", "cannot import name"),
        ("import pyflink.surprise", "its reference lists the modules it has"),
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

        assert "pyflinklike.pyflink" == pyflink.__name__
    finally:
        uninstall()


def test_installing_twice_is_installing_once(installed):
    """And once it is taken back, nobody finds the names."""
    install()
    uninstall()

    with pytest.raises(ModuleNotFoundError):
        import pyflink  # noqa: F401


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nosuch.py"], "got 'nosuch.py', which is not there; give its path from"),
        (["folder"], "got 'folder', which is a folder without one; give its path from"),
        (
            ["-D", "parallelism.default", "job.py"],
            "KEY=VALUE without ';', got 'parallelism.default'",
        ),
        (["-D", "a=1;b=2", "job.py"], "got 'a=1;b=2'; give each setting its own -D"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_told_in_a_sentence(tmp_path, arguments, told):
    """And not by a traceback through what runs scripts."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "job.py").write_text("print(1)", encoding="utf-8")

    lines, said = run(*arguments, cwd=tmp_path)

    assert [] == lines
    assert told in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch'"),
        ("import pyflink.shell", "ModuleNotFoundError: pyflinklike has nothing for pyflink.shell"),
        (
            "from pyflink.datastream import Surprise",
            "ImportError: cannot import name 'Surprise' from 'pyflinklike.pyflink.datastream'",
        ),
        (
            "from pyflink.table import Table; Table()",
            "pyflinklike.errors.RefusedNameError: pyflinklike has nothing for table.table.Table",
        ),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_of_a_script_is_shown_from_the_script_on(tmp_path, text, last):
    """As Python shows it for a script that it runs itself."""
    (tmp_path / "job.py").write_text(f"import mod{chr(10)}", encoding="utf-8")
    (tmp_path / "mod.py").write_text(text, encoding="utf-8")

    _, said = run("job.py", cwd=tmp_path)

    files = [line.split(",")[0].strip() for line in said.splitlines() if line.startswith("  File")]
    assert ['File "job.py"', f'File "{tmp_path / "mod.py"}"'] == files
    assert said.splitlines()[-1].startswith(last)


def test_a_script_that_is_no_python_is_shown_alone(tmp_path):
    """With the line that is wrong."""
    (tmp_path / "job.py").write_text("def (:", encoding="utf-8")

    _, said = run("job.py", cwd=tmp_path)

    assert '  File "job.py", line 1' == said.splitlines()[0]


def test_a_script_says_how_it_ends(tmp_path):
    """Also in the middle."""
    (tmp_path / "job.py").write_text("import sys; sys.exit(3)", encoding="utf-8")
    command = [sys.executable, "-m", "pyflinklike.run", "job.py"]

    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=False)

    assert 3 == done.returncode


def test_a_job_without_a_target_runs_in_the_process_where_its_sources_end(tmp_path):
    """And nothing is said: that is the rule."""
    (tmp_path / "job.py").write_text(SCRIPT, encoding="utf-8")

    assert (["(a!,1)", "(b!,1)", "(b!,2)"], "") == run("job.py", "!", cwd=tmp_path)


ENDLESS = """
import sys
{first}
from pyflink.common import WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

env = StreamExecutionEnvironment.get_execution_environment()
lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "lines")
source = lines.monitor_continuously(1000).build()
env.from_source(source, WatermarkStrategy.no_watermarks(), "new lines").print()
{last}
"""


def test_a_job_without_an_end_says_what_to_do_where_no_spark_is(tmp_path):
    """The option, and what installs PySpark."""
    script = ENDLESS.format(first="sys.modules['pyspark'] = None", last="env.execute()")
    (tmp_path / "job.py").write_text(script, encoding="utf-8")

    _, said = run("job.py", cwd=tmp_path)

    rule = "a job with a source that does not end runs on Spark, got 'new lines' and no PySpark; pip install"
    assert rule in said
    assert "give --target local" in said


def test_a_job_without_a_target_goes_to_spark_where_a_source_does_not_end(tmp_path):
    """One line says so; the rest is Spark's."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
    # Nothing starts: the module of the host is there, and runs nothing.
    first = (
        "from types import ModuleType; host = ModuleType('host'); host.start = lambda job: Run(); "
        "sys.modules['pyflinklike.pyflink._spark.job_runs'] = host"
    )
    last = (
        "class Run:\n    wait = staticmethod(lambda: print('on Spark'))\n"
        "    metrics = staticmethod(dict)\nenv.execute()"
    )
    (tmp_path / "job.py").write_text(ENDLESS.format(first=first, last=last), encoding="utf-8")

    lines, said = run("job.py", cwd=tmp_path)

    assert ["on Spark"] == lines
    (line,) = said.splitlines()
    told = "pyflinklike: the job runs on Spark, as its source 'new lines' does not end; --target"
    assert line.startswith(told)


def test_the_help_says_where_jobs_run(tmp_path):
    """Without a target, too."""
    lines, _ = run("--help", cwd=tmp_path)

    said = " ".join(" ".join(lines).split())
    assert "without it a job whose sources end runs in this process" in said
