"""Reads the series of every service from a Prometheus: one query per metric, whatever the number of services.

Raw samples are asked for (`name[90s]`), with their own times, so that deltas, resets and ages are judged here.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from llmservice.api.fleet import PrometheusConnection
from llmservice.signals.series import SeriesId
from llmservice.signals.source import Histories, PodKey, Target, history_of

RANGE_LOOKS: Final = 6
"""How far back each query looks, so that some that fail lose nothing."""
TIMEOUT_SECONDS: Final = 10
_SCRAPERS: Final = frozenset(
    {
        "job",
        "namespace",
        "pod",
        "container",
        "endpoint",
        "node",
        "service",
        "prometheus",
        "prometheus_replica",
        "cluster",
    }
)
"""Labels of whoever scraped, beside those that a PodMonitor copies from the pod and a user's relabelling adds."""
_KEPT: Final = frozenset(
    {"model", "version", "instance", "outcome", "kind", "batch_size", "level", "le", "reason", "request_type"}
    | {"kv_cache_block_type"}
)
"""Labels of the exporters, see `adapters`: only these tell one series of a pod from another."""


NO_URL: Final = "is no URL of a Prometheus: write http://HOST:PORT or https://HOST:PORT"
_NOT_JSON: Final = "answers with something that is not Prometheus' JSON: check the URL"


class PrometheusError(RuntimeError):
    """The Prometheus does not answer, or not with samples."""


@dataclass
class Prometheus:
    """A source of signals. `connection` has a URL."""

    connection: PrometheusConnection
    interval: float
    """Seconds between two looks."""
    name: str = "Prometheus"
    _session: requests.Session | None = field(default=None, init=False)

    async def collect(self, targets: Sequence[Target], histories: Histories, now: float) -> str:
        """See `Source`. The Prometheus' clock may differ from ours: its samples are moved by the difference."""
        if not targets:
            return ""
        try:
            looks = await asyncio.to_thread(self._ask, targets, now)
        except PrometheusError as error:
            return f"Prometheus {self.connection.url}: {error}"
        for pod, moments in looks.items():
            history = history_of(histories, pod)
            for at in sorted(moments):
                history.add(at, moments[at])
        if not looks:
            return f"Prometheus {self.connection.url} has no series of any pod: {_HINT}"
        return ""

    def _ask(self, targets: Sequence[Target], now: float) -> dict[PodKey, Moments]:
        client = self._client()
        wanted: dict[PodKey, frozenset[str]] = {target.pod: target.names for target in targets}
        spaces = "|".join(sorted({target.pod[0] for target in targets}))
        ahead = answered(client.custom_query, "time()")
        try:
            skew = float(ahead[0]) - now if ahead else 0.0
        except (TypeError, ValueError) as error:
            raise PrometheusError(_NOT_JSON) from error
        found: dict[PodKey, list[Scraped]] = {}
        for name in sorted(frozenset().union(*wanted.values())):
            query = f'{{__name__="{name}",namespace=~"{spaces}"}}[{round(RANGE_LOOKS * self.interval)}s]'
            for one in read_matrix(name, answered(client.custom_query, query)):
                if name in wanted.get(one.pod, ()):
                    found.setdefault(one.pod, []).append(one)
        return {pod: merged(scraped, skew) for pod, scraped in found.items()}

    def _client(self) -> PrometheusConnect:
        """A client with the credentials as the files have them now: Secrets are renewed under a running operator."""
        try:
            headers = {**self.connection.headers, **_credentials(self.connection)}
        except OSError as error:
            raise PrometheusError(f"credentials cannot be read: {error}") from error
        if self._session is None:
            self._session = requests.Session()
            self._session.verify = self.connection.ca_file or True
        url = (self.connection.url or "").rstrip("/")
        return PrometheusConnect(
            url=url,
            headers=headers,
            session=self._session,
            timeout=TIMEOUT_SECONDS,
            method="POST",
            retry=Retry(total=0),
        )


_HINT: Final = (
    "see that it scrapes the pods (values podMonitor: true, and labels that it selects), and that series carry the "
    "labels namespace and pod"
)

Moments = dict[float, list[tuple[SeriesId, float]]]
"""What was scraped of a pod, by the moment."""


@dataclass(frozen=True)
class Scraped:
    """One series of one pod, as one scraper saw it."""

    pod: PodKey
    series: SeriesId
    scraper: tuple[tuple[str, str], ...]
    points: tuple[tuple[float, float], ...]


def read_matrix(name: str, result: Iterable[Any]) -> list[Scraped]:
    """The series in the answer to a range-vector query, those of pods. Raises PrometheusError for another form."""
    found: list[Scraped] = []
    try:
        for item in result:
            labels: Mapping[str, str] = item["metric"]
            if not labels.get("namespace") or not labels.get("pod"):
                continue
            points = tuple((float(at), float(value)) for at, value in item["values"])
            found.append(Scraped((labels["namespace"], labels["pod"]), _own(name, labels), _scraper(labels), points))
    except (KeyError, TypeError, ValueError) as error:
        raise PrometheusError(f"answered {name} in another form than samples over time") from error
    return found


def merged(scraped: Sequence[Scraped], skew: float) -> Moments:
    """What one scraper saw of a pod, by our clock.

    Where several scrape it (a pair for availability, two monitors) it is the one that saw most: their samples must not
    be mixed, or every counter would count twice.
    """
    looks: dict[tuple[tuple[str, str], ...], set[float]] = {}
    for one in scraped:
        looks.setdefault(one.scraper, set()).update(at for at, _ in one.points)
    best = max(looks, key=lambda scraper: (len(looks[scraper]), max(looks[scraper], default=0.0), scraper), default=())
    moments: Moments = {}
    for one in scraped:
        if one.scraper == best:
            for at, value in one.points:
                moments.setdefault(at - skew, []).append((one.series, value))
    return moments


def _own(name: str, labels: Mapping[str, str]) -> SeriesId:
    """The exporter's labels. Prometheus renames one that it sets itself, `instance`, unless it honours labels."""
    own = {key: value for key, value in labels.items() if key in _KEPT}
    own |= {key.removeprefix("exported_"): value for key, value in labels.items() if key.startswith("exported_")}
    if "exported_instance" not in labels and ":" in own.get("instance", ""):
        del own["instance"]  # the scraped address, which says nothing about the process
    return SeriesId.of(name, own)


def _scraper(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value) for key, value in labels.items() if key in _SCRAPERS))


def answered(ask: Callable[..., Any], query: str, *of: Any) -> list[Any]:
    """What Prometheus answers where `ask` sends it `query` and `of`. Raises PrometheusError where it does not."""
    try:
        answer = ask(query, *of)
    except (
        requests.exceptions.InvalidURL,
        requests.exceptions.MissingSchema,
        requests.exceptions.InvalidSchema,
    ) as error:
        raise PrometheusError(NO_URL) from error
    except requests.exceptions.JSONDecodeError as error:
        raise PrometheusError(_NOT_JSON) from error
    except requests.exceptions.RetryError as error:
        cause = error.args[0] if error.args else error
        raise PrometheusError(f"fails again and again ({getattr(cause, 'reason', cause)}): see its log") from error
    except requests.exceptions.TooManyRedirects as error:
        raise PrometheusError("redirects without end: check the URL, and whether it is behind a login") from error
    except requests.RequestException as error:
        raise PrometheusError(f"does not answer ({type(error).__name__})") from error
    except PrometheusApiClientException as error:
        raise PrometheusError(f"refuses the query {query}: {str(error)[:200]}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PrometheusError(_NOT_JSON) from error
    return answer if isinstance(answer, list) else []


def _credentials(connection: PrometheusConnection) -> dict[str, str]:
    if connection.token_file:
        return {"Authorization": f"Bearer {Path(connection.token_file).read_text().strip()}"}
    if connection.username_file and connection.password_file:
        pair = (
            f"{Path(connection.username_file).read_text().strip()}:{Path(connection.password_file).read_text().strip()}"
        )
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}
