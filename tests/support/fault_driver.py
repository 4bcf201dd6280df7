# SPDX-License-Identifier: Apache-2.0
"""A driver that may be killed: `python fault_driver.py <job as JSON>`; see fault_lives.Job."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fault_support import Place, backend_of, ledger, write
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

_PATIENCE = 240


def main(job: dict[str, Any]) -> None:
    """Run the job's queries one after the other, again where one fails."""
    settings = dict(job["settings"])
    if job["hosts"]:
        work = Path(job["queries"][0][0]).parent / "work"
        settings["spark.master"] = start_cluster(settings, job["hosts"], work)
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    for root, backend in job["queries"]:
        place = Place(Path(root))
        rows = ledger(spark, place, backend_of(backend, place))
        for _ in range(job["tries"]):
            query = write(rows, place)
            try:
                query.awaitTermination(_PATIENCE)
                break
            except StreamingQueryException as error:
                with (place.root / "errors").open("a") as errors:
                    errors.write(json.dumps(str(error)) + "\n")
    spark.stop()


def start_cluster(settings: dict[str, str], hosts: list[str], work: Path) -> str:
    """A standalone cluster with a worker per host in this JVM, as `local-cluster` makes it.

    There all workers are on one host, and Spark never runs a speculative attempt on the
    host of the first one.
    """
    from pyspark.conf import SparkConf

    conf = SparkConf().setAll(list(settings.items()))
    SparkContext._ensure_initialized(conf=conf)
    jvm: Any = SparkContext._jvm
    gateway: Any = SparkContext._gateway
    jconf = jvm.org.apache.spark.SparkConf(True)
    for name, value in settings.items():
        jconf.set(name, value)
    deploy = jvm.org.apache.spark.deploy
    master = deploy.master.Master.startRpcEnvAndEndpoint(hosts[0], 0, 0, jconf)
    url: str = master._1().address().toSparkURL()
    none, option = jvm.scala.Option.empty(), jvm.scala.Option.apply
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = url
    for number, host in enumerate(hosts):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            *(host, 0, 0, 1, 1024, masters, str(work), option(number), jconf, none)
        )
    return url


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
