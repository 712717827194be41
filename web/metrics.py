"""Metrics for Prometheus, in its text format 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

Reading = tuple[str, str, str, Iterable[tuple[Mapping[str, str], float]]]
"""Name, help, type (`gauge`, `counter`), and a value for each set of labels; a counter's name ends in `_total`."""
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _Readings(Collector):
    """A collector that reads the numbers at each collection."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the current numbers. Raises ValueError for a name or type that is invalid in Prometheus."""
        for name, meaning, kind, samples in self._read():
            metric = Metric(name.removesuffix("_total") if kind == "counter" else name, meaning, kind)
            for labels, value in samples:
                metric.add_sample(name, dict(labels), value)
            yield metric


def registry_of(read: Callable[[], Iterable[Reading]]) -> CollectorRegistry:
    """Return a registry that has only the numbers that `read` returns at each collection."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Readings(read))
    return registry


def text_of(registry: CollectorRegistry) -> bytes:
    """Return the body of `/metrics`."""
    return generate_latest(registry)
