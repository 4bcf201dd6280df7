# SPDX-License-Identifier: Apache-2.0
"""The metrics of queries for Prometheus and for OpenTelemetry.

A scrape of Prometheus calls a collector, and a reader of OpenTelemetry's SDK calls observable
instruments.  Both read the listener, so that no number is kept twice.  A program that wants
OpenTelemetry to push the metrics chooses a `PeriodicExportingMetricReader`; this module needs only
OpenTelemetry's API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyflinklike._checks import is_int, lacking
from pyflinklike._messages import short_repr, shown_message
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
)
from pyflinklike.monitoring.catalogue import CATALOGUE, CatalogueEntry
from pyflinklike.monitoring.query_listener import MAX_SERIES, QueryListener

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from prometheus_client.core import Metric as Family

# Prometheus


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
        try:
            import prometheus_client as client
        except ImportError as error:
            raise lacking("PrometheusListener", "prometheus", error) from error
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
            self._serve(client, port, address)

    def _serve(self, client: Any, port: int, address: str) -> None:
        try:
            self._server, self._thread = client.start_http_server(port, address, self._registry)
        # A text that can be no name, such as one with a null byte, raises a ValueError.
        except (OSError, ValueError) as error:
            self.close()
            where = f"{short_repr(address)}:{port} ({shown_message(error)})"
            msg = f"PrometheusListener needs a free port of this machine, got {where}"
            raise SparkSetupError(f"{msg}; give another one, or 0") from error

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


def _check_port(port: Any) -> None:
    msg = f"port must be None or an int from 0 to {_LAST_PORT}, got {short_repr(port)}; for example 9464"
    if port is not None and not is_int(port):
        raise DeclarationTypeError(msg)
    if port is not None and not 0 <= port <= _LAST_PORT:
        raise DeclarationValueError(msg)


# OpenTelemetry


class OpenTelemetryListener(QueryListener):
    """Passes the metrics of a session's queries to OpenTelemetry.

    `spark.streams.addListener(OpenTelemetryListener())` does so until `close`, through the readers of
    the `MeterProvider` that the program has set.  The labels are attributes: `query` is the name of a
    query, `operator` the `uid` of an operator.  An instrument has the name of Prometheus'
    metric without unit and ending: `pyflinklike.records` for `pyflinklike_records_total`.

    Args:
        meter_provider: The provider of meters; by default OpenTelemetry's global one.
        max_series: The most series that are kept; more are left out and counted.
        triggers: The interval of each query's trigger in seconds, by the query's name.  Spark does
            not report it, and the alert for batches that take longer needs it.

    Raises:
        RequirementError: OpenTelemetry's API is missing: the extra `otel`.
        DeclarationError: An argument has another type or range.
    """

    def __init__(
        self,
        meter_provider: Any = None,
        *,
        max_series: int = MAX_SERIES,
        triggers: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(max_series, triggers)
        try:
            from opentelemetry import metrics as api
        except ImportError as error:
            raise lacking("OpenTelemetryListener", "otel", error) from error
        provider = api.get_meter_provider() if meter_provider is None else meter_provider
        if not isinstance(provider, api.MeterProvider):
            msg = f"meter_provider must be a MeterProvider, got {short_repr(meter_provider)}"
            raise DeclarationTypeError(f"{msg}; leave it out for the global one")
        self._observation = api.Observation
        self._is_closed = False
        meter = provider.get_meter("pyflinklike")
        create: dict[str, Callable[..., Any]] = {
            "counter": meter.create_observable_counter,
            "sum": meter.create_observable_up_down_counter,
            "gauge": meter.create_observable_gauge,
        }
        for each in CATALOGUE:
            create[each.kind](
                *(each.instrument, [self._observes(each)]), each.instrument_unit, each.help
            )

    def close(self) -> None:
        """Pass no more numbers on; OpenTelemetry has no way to remove an instrument."""
        self._is_closed = True

    def _observes(self, of: CatalogueEntry) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            if self._is_closed:
                # An instrument without observations is not exported.
                return []
            return [
                self._observation(value, dict(zip(of.labels, labels)))
                for labels, value in self.samples(of)
            ]

        return observe
