# SPDX-License-Identifier: Apache-2.0
"""The metrics of queries for Prometheus, by a collector of prometheus-client.

A scrape calls the collector, which reads the listener, so that no number is kept twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyflinklike._checks import install, is_int
from pyflinklike._messages import short_repr, shown_message
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    RequirementError,
    SparkSetupError,
)
from pyflinklike.monitoring.catalogue import CATALOGUE, CatalogueEntry
from pyflinklike.monitoring.query_listener import MAX_SERIES, QueryListener

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

__all__ = ["PrometheusListener"]

_LAST_PORT = 65_535


class PrometheusListener(QueryListener):
    """Shows the metrics of a session's queries to Prometheus.

    `spark.streams.addListener(PrometheusListener(port=9464))` serves them at
    `http://127.0.0.1:9464/metrics`, until `close`.  Give each query a name
    (`writeStream.queryName("clicks")`), and each operator a `uid`: these are the labels `query` and
    `operator`.

    Args:
        port: The port to serve on; 0 takes a free one.  None serves nothing: the metrics are in the
            registry, for a program that serves the registry itself.
        address: The address to serve on.  Prometheus reads without a password.  So any other address
            than this machine's own shows the metrics to everyone who reaches it.
        registry: The registry of prometheus-client; by default `prometheus_client.REGISTRY`.
        max_series: The most series that are kept; more are left out and counted.
        triggers: The interval of each query's trigger in seconds, by the query's name.  Spark does
            not report it, and the alert for batches that take longer needs it.

    Raises:
        RequirementError: prometheus-client is missing: the extra `prometheus`.
        DeclarationError: An argument is wrong, or the registry has the metrics already.
        SparkSetupError: The port is taken, or the address is none of this machine.
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        address: str = "127.0.0.1",
        registry: Any = None,
        max_series: int = MAX_SERIES,
        triggers: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(max_series, triggers)
        client = _client()
        self._registry = client.REGISTRY if registry is None else registry
        if not isinstance(self._registry, client.CollectorRegistry):
            msg = f"registry must be a CollectorRegistry, got {short_repr(registry)}; leave it out"
            raise DeclarationTypeError(msg)
        _check_port(port)
        if not isinstance(address, str):
            msg = f'address must be a name or number of this machine, got {short_repr(address)}; for example "0.0.0.0"'
            raise DeclarationTypeError(msg)
        self._collector = _Collector(self)
        try:
            self._registry.register(self._collector)
        except ValueError as error:
            msg = (
                "a registry takes the metrics of one PrometheusListener, got a second one; add the "
                "first to the other session, too, or close() it"
            )
            raise DeclarationError(msg) from error
        self._server: Any = None
        if port is not None:
            try:
                self._server, self._thread = client.start_http_server(port, address, self._registry)
            # A text that can be no name, such as one with a null byte, raises a ValueError.
            except (OSError, ValueError) as error:
                self.close()
                msg = (
                    f"PrometheusListener needs a free port of this machine, got "
                    f"{short_repr(address)}:{port} ({shown_message(error)}); give another one, or 0"
                )
                raise SparkSetupError(msg) from error

    @property
    def port(self) -> int | None:
        """The port on which the metrics are served; None if they are not served."""
        return None if self._server is None else self._server.server_port

    def close(self) -> None:
        """Stop serving, and remove the metrics from the registry; a second call does nothing."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None
        if self._collector is not None:
            self._registry.unregister(self._collector)
            # A second `unregister` would raise, and `close` may be called again.
            self._collector = None  # type: ignore[assignment]


class _Collector:
    """Passes the metrics of a listener to a registry."""

    def __init__(self, listener: QueryListener) -> None:
        self._listener = listener

    def describe(self) -> Iterator[Family]:
        """Yield all metrics without values, so that the registry refuses their names to others."""
        for each in CATALOGUE:
            yield _family(each)

    def collect(self) -> Iterator[Family]:
        """Yield the metrics that have values."""
        for each in CATALOGUE:
            family = _family(each)
            for labels, value in self._listener.samples(each):
                family.add_metric(labels, value)
            if family.samples:
                yield family


def _family(metric: CatalogueEntry) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return made(metric.family, metric.help, labels=metric.labels, unit=metric.unit)


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError as error:
        msg = f"PrometheusListener needs prometheus-client, got no module {error.name!r}"
        remedy = f"{install('prometheus')} installs it"
        raise RequirementError(f"{msg}; {remedy}", name=error.name) from error
    return prometheus_client


def _check_port(port: Any) -> None:
    msg = f"port must be None or an int from 0 to {_LAST_PORT}, got {short_repr(port)}; for example 9464"
    if port is not None and not is_int(port):
        raise DeclarationTypeError(msg)
    if port is not None and not 0 <= port <= _LAST_PORT:
        raise DeclarationValueError(msg)
