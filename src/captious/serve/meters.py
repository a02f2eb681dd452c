"""What the service counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

KIND = CONTENT_TYPE_LATEST
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
_TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Meters:
    """Requests, captions, batches, latencies, and what waits."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        made = self._registry
        self.requests = Counter(
            "captious_requests", "Requests by path and status", ["path", "status"], registry=made
        )
        self.seconds = Histogram(
            "captious_request_seconds", "Time of a request", ["path"], buckets=_TIMES, registry=made
        )
        self.under_way = Gauge(
            "captious_requests_under_way", "Requests that have begun and have no answer yet",
            registry=made,
        )  # fmt: skip
        self.captions = Counter("captious_captions", "Captions that were scored", registry=made)
        self.batch_requests = Histogram(
            "captious_batch_requests", "Requests scored together", buckets=_SIZES, registry=made
        )
        self.batch_captions = Histogram(
            "captious_batch_captions", "Captions scored together", buckets=_SIZES, registry=made
        )
        Gauge("captious_waiting_captions", "Captions that wait", registry=made).set_function(
            waiting
        )

    def batch(self, requests: int, captions: int) -> None:
        """Count a batch."""
        self.batch_requests.observe(requests)
        self.batch_captions.observe(captions)
        self.captions.inc(captions)

    def text(self) -> bytes:
        """Return everything in the format that Prometheus reads."""
        return generate_latest(self._registry)
