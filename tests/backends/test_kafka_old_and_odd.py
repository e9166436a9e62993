"""What listeners say that are older than the rig's, or odd: versions, fallbacks, what is hidden."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest
from kafka.protocol.admin import UpdateFeaturesResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from featurelib.backends.credentials import HIDDEN, Credentials
from featurelib.backends.kafka.backend import open_kafka
from featurelib.backends.kafka.connection import Connection
from featurelib.backends.kafka.internals import Api
from featurelib.backends.kafka.protocol import Wire
from featurelib.config.fleet import FleetEntry
from featurelib.config.security import Security
from featurelib.core.reply import Reply
from featurelib.errors import OutcomeUnknownError, RefusedError, UnreachableError
from featurelib.landing import ApiVersionsAnswer, read
from featurelib.landing.line import Landing
from featurelib.model import Move, Step
from tests.backends.speaking import Answering, Listener, Mine, api_versions, node, speaking

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
SECRET = "s3cret-of-alice"
NOT_CONTROLLER = 41

OLD = {Api.METADATA: (0, 9), Api.API_VERSIONS: (0, 3), Api.UPDATE_FEATURES: (0, 0)}  # 2.7, 2.8


def only_broker(
    offered: Mapping[Api, tuple[int, int]] = OLD,
    update: Iterable[Any] = (),
    cluster_id: str | None = "c",
) -> AbstractContextManager[Listener]:
    """A broker that lists itself by Metadata; `update` are its answers of UpdateFeatures."""

    def metadata(mine: Mine) -> Any:
        broker = MetadataResponse.MetadataResponseBroker(
            node_id=mine[0], host=mine[1], port=mine[2], rack=None
        )
        return MetadataResponse(
            brokers=[broker], cluster_id=cluster_id, controller_id=mine[0], topics=[]
        )

    left = iter(update)
    return node(offered, metadata=metadata, update_features=lambda mine: next(left))


def updated(code: int) -> Any:
    return UpdateFeaturesResponse(error_code=code, error_message=None, results=[])


def step(upgrade_type: str = "UPGRADE") -> Step:
    update = Move(feature="f", from_level=1, to_level=2, upgrade_type=upgrade_type)
    return Step(updates=(update,), timeout_ms=100)


def opened(listener: Listener, cluster: str = "", **settings: Any) -> Any:
    entry = FleetEntry(id=cluster, bootstrap=(listener.address,), **settings)
    return open_kafka(entry, timeout=2.0)


def sent_updates(listener: Listener) -> int:
    return [key for key, _ in listener.asked].count(Api.UPDATE_FEATURES)


def test_a_broker_of_2_7_is_asked_in_version_3_and_listed_by_metadata() -> None:
    with only_broker() as listener:
        backend = opened(listener)
        (line,) = backend.describe(lambda text: None)
    said = read(line)
    assert isinstance(said, Landing)
    assert isinstance(said.content, ApiVersionsAnswer)
    assert (said.content.asked_version, said.content.answered_version) == (4, 3)
    assert said.content.supported == (("f", 1, 3),)
    assert backend.abilities().mode == "zk"
    assert {(key, version) for key, version in listener.asked if key == Api.API_VERSIONS} == {
        (Api.API_VERSIONS, 4),
        (Api.API_VERSIONS, 3),
    }


def test_a_server_that_offers_a_version_and_refuses_it_is_asked_in_a_lower_one() -> None:
    offered = OLD | {Api.API_VERSIONS: (0, 4)}
    with speaking({Api.API_VERSIONS: api_versions(offered)}) as listener:
        client = Wire(Credentials(Security()), 2.0).connect(listener.address)
        listener.answers = {Api.API_VERSIONS: api_versions(offered, refuses=4)}
        with client:
            said = client.api_versions()
    assert said.version == 3
    assert said.fault is None
    assert [version for _, version in listener.asked] == [4, 4, 3]


@pytest.mark.parametrize(
    ("upgrade_type", "allows_downgrade"),
    [("UPGRADE", 0), ("SAFE_DOWNGRADE", 1), ("UNSAFE_DOWNGRADE", 1)],
)
def test_version_0_of_an_update_says_whether_it_may_go_down(
    upgrade_type: str, allows_downgrade: int
) -> None:
    with only_broker(update=[updated(0)]) as listener:
        assert opened(listener).update(step(upgrade_type)) == Reply(
            code=0, message=None, results=()
        )
    key, version, frame = listener.heard[-1]
    assert (key, version) == (Api.UPDATE_FEATURES, 0)
    # One update: name "f", level 2, AllowDowngrade, and the empty tagged fields of both structs.
    assert frame.endswith(b"\x02\x02f\x00\x02" + bytes([allows_downgrade]) + b"\x00\x00")


def test_after_not_controller_a_request_is_not_sent_again() -> None:
    """Whoever answered so may have appended it, and the next leader may commit that."""
    with only_broker(update=map(updated, (NOT_CONTROLLER, 0))) as listener:
        assert opened(listener).update(step()).code == NOT_CONTROLLER
    assert sent_updates(listener) == 1


def test_an_answer_that_makes_no_sense_leaves_the_outcome_unknown() -> None:
    nonsense = ApiVersionsResponse(error_code=0, api_keys=[])
    with only_broker(update=[nonsense]) as listener:
        backend = opened(listener)
        with pytest.raises(OutcomeUnknownError, match="UpdateFeatures was sent to"):
            backend.update(step())
    assert sent_updates(listener) == 1


def test_a_listener_without_the_request_refuses_before_anything_is_sent() -> None:
    offered = {Api.METADATA: (0, 9), Api.API_VERSIONS: (0, 3)}
    with (
        only_broker(offered) as listener,
        pytest.raises(RefusedError, match="expected UpdateFeatures in a version from 0 to 2"),
    ):
        opened(listener).update(step())


@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        ("PLAIN", {"username": "alice", "password": "env:ALICE"}),
        ("OAUTHBEARER", {"oauth_token": "env:ALICE"}),
    ],
)
def test_a_secret_is_sent_where_it_belongs_and_words_that_repeat_it_are_cleaned(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mechanism: str,
    settings: dict[str, str],
) -> None:
    monkeypatch.setenv("ALICE", SECRET)
    security = Security(protocol="SASL_PLAINTEXT", mechanism=mechanism, **settings)  # type: ignore[arg-type]
    offered = {Api.API_VERSIONS: (0, 4)}
    keys: Any = offered | {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
    answers: dict[int, Answering] = {
        Api.API_VERSIONS: api_versions(keys),
        SASL_HANDSHAKE: lambda version: SaslHandshakeResponse(error_code=0, mechanisms=[mechanism]),
        SASL_AUTHENTICATE: lambda version: SaslAuthenticateResponse(
            error_code=58, error_message=f"what is {SECRET}?", auth_bytes=b"", session_lifetime_ms=0
        ),
    }
    told: list[str] = []
    with (
        speaking(answers) as listener,
        caplog.at_level(logging.DEBUG),
        pytest.raises(UnreachableError, match="authentication failed") as caught,
    ):
        opened(listener, security=security).describe(told.append)
    sent = [frame for key, _, frame in listener.heard if key == SASL_AUTHENTICATE]
    assert [SECRET.encode() in frame for frame in sent] == [True]
    assert HIDDEN in str(caught.value)
    assert "Check the address" not in str(caught.value)  # the listener was reached
    assert SECRET not in f"{caught.value!r} {told} {caplog.text}"


def test_a_cluster_that_never_says_its_id_is_asked_for_it() -> None:
    with only_broker(cluster_id=None) as listener:
        with pytest.raises(Exception, match="No node returned the cluster id"):
            opened(listener).describe(lambda text: None)
        (line,) = opened(listener, "payments").describe(lambda text: None)
    assert msgspec.json.decode(line)["cluster_id"] == "payments"


def test_the_last_check_runs_after_all_that_may_wait_and_right_before_the_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where the approval is withdrawn while the listener throttles the connection."""
    order = list[str]()

    async def wait(self: Connection) -> None:
        order.append("waits")

    def refuse() -> None:
        order.append("checks")
        raise RefusedError("withdrawn")

    monkeypatch.setattr(Connection, "_wait_until_idle", wait)
    with only_broker(update=[updated(0)]) as listener:
        backend = opened(listener)
        backend.recipient()
        order.clear()
        with pytest.raises(RefusedError, match="withdrawn"):
            backend.update(step(), last_check=refuse)
        assert (order, sent_updates(listener)) == (["waits", "checks"], 0)
        assert backend.update(step(), last_check=lambda: None).code == 0
        assert sent_updates(listener) == 1


def test_a_login_that_is_renewed_ends_before_the_last_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session of a second (KIP-368) that is renewed when the request is due: the client would
    keep the bytes back until then."""
    monkeypatch.setenv("ALICE", SECRET)
    security = Security(
        protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="alice", password="env:ALICE"
    )
    logins = list[str]()

    def authenticate(version: int) -> Any:
        logins.append("")
        if len(logins) > first:
            time.sleep(0.5)
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=1000
        )

    first = 10
    offered: Any = OLD | {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
    with only_broker(offered, update=[updated(0)]) as listener:
        assert isinstance(listener.answers, dict)
        handshake = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])
        listener.answers[SASL_HANDSHAKE] = lambda version: handshake
        listener.answers[SASL_AUTHENTICATE] = authenticate
        backend = opened(listener, security=security)
        backend.recipient()
        first = len(logins)
        time.sleep(1)
        backend._held._net.poll(timeout_ms=50)  # the renewal begins
        before = list[int]()
        assert (
            backend.update(step(), last_check=lambda: before.append(len(listener.heard))).code == 0
        )
    assert len(logins) == first + 1
    assert [key for key, _, _ in listener.heard[before[0] :]] == [Api.UPDATE_FEATURES]
