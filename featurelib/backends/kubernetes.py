"""Read Strimzi's resources from Kubernetes' API server; write no resource.

The user is that of the kubeconfig's current or named context; in a pod without a kubeconfig it is
the service account. featurelib requests only lists of three kinds in all namespaces, page by page,
in the version that the server prefers: no secret, no pod.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from featurelib.errors import ConfigError, UnreachableError, needing
from featurelib.landing.strict import show
from featurelib.words import clean

PREFIX = "kubernetes:"
# The lists to read, by API group. If the last list is refused, the pools still list the nodes.
_LISTS = (
    ("kafka.strimzi.io", "kafkas"),
    ("kafka.strimzi.io", "kafkanodepools"),
    ("core.strimzi.io", "strimzipodsets"),
)
_PAGE = 250
_SECONDS = 30.0
_LONGEST = 200  # the maximum length of the server's message, in characters


def list_resources(context: str) -> Iterator[object]:
    """Yield all Kafka, KafkaNodePool and StrimziPodSet resources; `context`: "" = the current one.
    Raises ConfigError without settings for a server; UnreachableError if the server refuses or does
    not respond."""
    need = f"{PREFIX}{context} needs the package kubernetes"
    with needing(need, "kubernetes"):
        client, config = (import_module(f"kubernetes.{name}") for name in ("client", "config"))
    settings = _settings(context, client, config)
    with client.ApiClient(settings) as api:
        try:
            groups = client.ApisApi(api).get_api_versions(_request_timeout=_SECONDS).groups
            preferred = {group.name: group.preferred_version.version for group in groups}
            method = client.CustomObjectsApi(api).list_cluster_custom_object
            for group, plural in _LISTS:
                if group in preferred:
                    yield from _items(partial(method, group, preferred[group], plural))
        except client.ApiException as error:
            raise _refused(context, error) from None
        except Exception as error:  # an error of urllib3, or a response that is not Kubernetes'
            reason = show(str(error.__cause__ or getattr(error, "reason", None) or error))
            raise UnreachableError(
                f"{PREFIX}{context}: The Kubernetes API server at {settings.host} did not respond: "
                f"{reason}. Nothing was written."
            ) from error


def _settings(context: str, client: Any, config: Any) -> Any:
    """Return client settings from a kubeconfig or service account. Raises ConfigError."""
    settings = client.Configuration()
    try:
        try:
            # the package reads the variable only when it is imported
            file = os.environ.get("KUBECONFIG") or None
            config.load_kube_config(file, context or None, client_configuration=settings)
        except config.ConfigException:
            if context:
                raise
            config.load_incluster_config(client_configuration=settings)
    except (config.ConfigException, OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{PREFIX}{context}: No kubeconfig has this context, and this is no pod with a service "
            f"account: {show(str(error))}. `kubectl config get-contexts` lists the contexts."
        ) from error
    settings.retries = False  # a failed request must end soon
    return settings


def _items(ask: Callable[..., Any]) -> Iterator[dict[str, object]]:
    """Yield every Kubernetes object of one type, page by page."""
    page_token: dict[str, str] | None = {}
    while page_token is not None:
        page = ask(limit=_PAGE, _request_timeout=_SECONDS, **page_token)
        yield from page.get("items") or ()
        token = (page.get("metadata") or {}).get("continue")
        page_token = {"_continue": token} if token else None


def _refused(context: str, error: Any) -> UnreachableError:
    """Return the error of a refused request. It has the server's message, which names the user."""
    try:
        words = json.loads(error.body)["message"].partition(". ")[0]
    except (ValueError, TypeError, KeyError, AttributeError):
        words = error.reason
    helps = {
        401: "Log in again: the credentials of this context are not taken.",
        403: "It needs the right to list kafkas, kafkanodepools and strimzipodsets in all "
        "namespaces: docs/how-to/strimzi.md has the role.",
        410: "The list changed during the reading. Run the command again.",
    }
    help_text = helps.get(error.status, "Try kubectl get kafka -A with the same context.")
    return UnreachableError(
        f"{PREFIX}{context}: The Kubernetes API server refused to list Strimzi's resources: "
        f"{error.status} {clean(str(words), _LONGEST)}. Nothing was written. {help_text}"
    )
