#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make what the other sides need: PyFlink in a virtual environment of its own, and
# the Java and Scala sources of jvm/ compiled against Flink's and Spark's jars.
#
#   BENCH_PEERS   where to put it; ~/.cache/pyflinklike-bench by default
#   PYTHON        a Python 3.9 to 3.12 for PyFlink, with a shared libpython; python3.11 by default
#   SPARK_PYTHON  the Python that has PySpark; python by default
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peers=${BENCH_PEERS:-$HOME/.cache/pyflinklike-bench}
spark_python=${SPARK_PYTHON:-python}
mkdir -p "$peers"

flink_python=$peers/flink-venv/bin/python
if ! "$flink_python" -c 'import pyflink' 2>/dev/null; then
    "${PYTHON:-python3.11}" -m venv "$peers/flink-venv"
    "$flink_python" -m pip install -q 'setuptools<80' wheel 'apache-flink==2.3.0'
fi

compiled=$(mktemp -d)
trap 'rm -rf "$compiled"' EXIT
flink_lib=$("$flink_python" -c 'import os, pyflink; print(os.path.join(os.path.dirname(pyflink.__file__), "lib"))')
javac -nowarn -d "$compiled/flink" -cp "$flink_lib/*" "$here"/jvm/*.java
jar cf "$compiled/flink.jar" -C "$compiled/flink" .
mv "$compiled/flink.jar" "$peers/flink-bench.jar"

spark_jars=$("$spark_python" -c 'import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), "jars"))')
mkdir "$compiled/spark"
java -cp "$spark_jars/*" scala.tools.nsc.Main -usejavacp -d "$compiled/spark" "$here"/jvm/*.scala
jar cf "$compiled/spark.jar" -C "$compiled/spark" .
mv "$compiled/spark.jar" "$peers/spark-bench.jar"
"$spark_python" -c 'import pyspark; print("compiled for PySpark", pyspark.__version__)'
