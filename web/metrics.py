"""Numbers for Prometheus, in its text format 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

Reading = tuple[str, str, str, Iterable[tuple[Mapping[str, str], float]]]
"""Name, help, type (`gauge`, `counter`), and a value for each set of labels; a counter's name ends in `_total`."""
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _Readings(Collector):
    """Asks for the numbers whenever they are collected."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """The numbers of now. Raises ValueError for a name or a type that Prometheus does not know."""
        for name, words, kind, samples in self._read():
            metric = Metric(name.removesuffix("_total") if kind == "counter" else name, words, kind)
            for labels, value in samples:
                metric.add_sample(name, dict(labels), value)
            yield metric


def registry_of(read: Callable[[], Iterable[Reading]]) -> CollectorRegistry:
    """A registry with what `read` returns at each collection and nothing else."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Readings(read))
    return registry


def text_of(registry: CollectorRegistry) -> bytes:
    """What `/metrics` answers."""
    return generate_latest(registry)
