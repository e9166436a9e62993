"""Read metrics of nodes as evidence: from a Prometheus server, or from a scrape in a file.

Kafka itself is not queried, so the reader needs neither a permission nor access to a listener. The
server returns its present samples and their times, without series that ended or were not scraped
for five minutes. Landing lines have the time of the scrape, never that of the query. A token goes
only to the server in the settings: redirects are not followed.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from typing import NoReturn, TextIO, cast

import msgspec

from featurelib.backends.credentials import Credentials, opener, plain
from featurelib.config.fleet import FleetEntry
from featurelib.config.security import Security
from featurelib.errors import ConfigError, CredentialsError, NoEvidenceError, needing
from featurelib.landing.fields import write_line
from featurelib.landing.samples import KIND, QUERY, Sample, metric_of, nodes_of
from featurelib.landing.strict import FaultError
from featurelib.landing.tool_outputs import ToolOutput, numbered

LOOKBACK = "5m"  # the maximum age of a sample, Prometheus' own default
LONGEST_ANSWER_BYTES = 64_000_000
_KEY = "prometheus"  # the settings' name in Credentials
_TOKEN = f"{_KEY}.oauth_token"


class _Series(msgspec.Struct):
    """A time series: one `value`, or the `values` of a time range, as (seconds, text)."""

    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    """The response of Prometheus to a request /api/v1/query."""

    status: str = ""
    data: _Data | None = None
    error: str = ""


class Prometheus:
    """A connection to the query API of Prometheus. `token`: the place of the secret (env:NAME,
    file:PATH). Raises ConfigError if the URL is invalid or contains a secret."""

    def __init__(self, url: str, *, timeout: float, token: str | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            secret = parts.scheme in ("http", "https") and "@" in parts.netloc
            fault = "The URL has a user or password" if secret else f"{url!r} is not a URL"
            raise ConfigError(
                f"--prometheus: {fault}. Use a URL such as http://prometheus.example:9090, and "
                "--token for a secret."
            )
        if token is not None and not token.startswith(("env:", "file:")):
            raise ConfigError("--token must be env:NAME or file:PATH, not the secret itself.")
        self.where, self._timeout = url.rstrip("/"), timeout
        security = Security(oauth_token=token or "")
        self._credentials = Credentials(security, _KEY) if token else None

    def describe(self, entry: FleetEntry) -> tuple[bytes, ...]:
        """Return the metrics of a cluster as landing lines, one per node and role. Raises
        NoEvidenceError without trustworthy samples."""
        labels = [f"{name}={json.dumps(value)}" for name, value in sorted(entry.metrics.items())]
        selector = "{" + ",".join([f"__name__=~{json.dumps(QUERY)}", *labels]) + "}"
        now = self._ask(selector)
        samples: list[Sample] = []
        if now:
            # The time of each sample's scrape, at the same moment.
            at = max(s.value[0] for s in now if s.value is not None)
            current = {frozenset(s.metric.items()) for s in now}
            ranges = self._ask(f"{selector}[{LOOKBACK}]", at)
            samples = [_sample(s) for s in ranges if frozenset(s.metric.items()) in current]
        try:
            nodes = nodes_of(samples, self.where)
        except FaultError as fault:
            label_names = ",".join(labels)
            raise NoEvidenceError(
                f"{self.where} {{{label_names}}}: {fault}. No data was stored."
            ) from None
        return tuple(write_line(KIND, entry.id, at, keys) for at, keys in nodes)

    def _ask(self, query: str, at: float | None = None) -> list[_Series]:
        """Return the time series that match a query. `at`: seconds, None = now."""
        fields = {"query": query} | ({} if at is None else {"time": f"{at:.3f}"})
        headers = {"Accept": "application/json"}
        if self._credentials is not None:
            try:
                headers["Authorization"] = f"Bearer {self._credentials.token(self._timeout)}"
            except CredentialsError as error:
                raise CredentialsError(str(error).replace(_TOKEN, "--token")) from None
        request = urllib.request.Request(
            f"{self.where}/api/v1/query", urllib.parse.urlencode(fields).encode(), headers
        )
        try:
            with opener().open(request, timeout=self._timeout) as answer:
                body = answer.read(LONGEST_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                parsed = _read(error.read(LONGEST_ANSWER_BYTES))
            help_ = ". It wants a token: --token env:NAME" if error.code in (401, 403) else ""
            self._fail(f"HTTP {error.code} {parsed.error if parsed else ''}".strip() + help_)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            late = (
                f"no answer within {self._timeout:g} s" if isinstance(reason, TimeoutError) else ""
            )
            reason_text = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
            self._fail(late or reason_text)
        if len(body) > LONGEST_ANSWER_BYTES:
            self._fail(f"more than {LONGEST_ANSWER_BYTES:,} bytes")
        parsed = _read(body)
        if parsed is None or parsed.data is None or parsed.status != "success":
            self._fail(parsed.error if parsed and parsed.error else "something else")
        return parsed.data.result

    def _fail(self, fault: str) -> NoReturn:
        hidden = self._credentials.hide(fault) if self._credentials else fault
        raise NoEvidenceError(
            f"{self.where}: The Prometheus server did not answer the query: {plain(hidden)}. Check "
            "the URL of --prometheus."
        ) from None


def _read(body: bytes) -> _Answer | None:
    try:
        return msgspec.json.decode(body, type=_Answer)
    except msgspec.DecodeError:
        return None


def _sample(series: _Series) -> Sample:
    """Return the newest sample in a time series."""
    labels = dict(series.metric)
    at, text = series.values[-1]
    return Sample(labels.pop("__name__", ""), labels, _number(text), round(at * 1000) * 1000)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def metrics_lines(lines: Iterable[bytes], source: ToolOutput) -> Iterator[bytes]:
    """Convert a scrape in Prometheus' text format to landing lines. Raises LandingError;
    ConfigError without the parser."""
    with needing("--kind metrics needs the package prometheus-client", "metrics"):
        import prometheus_client  # noqa: F401
    try:
        nodes = nodes_of(_parsed(lines, source), source.where)
    except FaultError as fault:
        raise source.fault(f"{fault}.") from None
    for at, keys in nodes:
        yield write_line(KIND, source.cluster_id, at, keys)


def _parsed(lines: Iterable[bytes], source: ToolOutput) -> Iterator[Sample]:
    """Yield every sample in a text. A sample without time gets the file's time."""
    from prometheus_client.parser import text_fd_to_metric_families

    def texts() -> Iterator[str]:
        for _, text in numbered(lines, source):
            yield text

    try:
        for family in text_fd_to_metric_families(cast(TextIO, texts())):
            for sample_read in family.samples:
                at = source.observed_at
                if sample_read.timestamp is not None:
                    at = round(float(sample_read.timestamp) * 1000) * 1000
                sample = Sample(sample_read.name, sample_read.labels, float(sample_read.value), at)
                source.left_out += metric_of(sample) is None
                yield sample
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        actual = plain(str(error)) or "the line has another form"
        fault = f"This is not Prometheus' text format: {actual}."
        raise source.fault(fault, source.lines or 1) from None
