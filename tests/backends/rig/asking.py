"""One request to one listener with kafka-python: what the rig's own tests look with."""

from __future__ import annotations

from typing import Any

from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

TIMEOUT_MS = 10_000


def ask(address: str, request: Any, **security: str) -> Any:
    """Sends a request to "host:port", a broker or a controller; gives kafka-python's answer.

    The version is the highest that both have, within the request's min_version and max_version.
    Raises KafkaError where no answer comes; an error code in the answer raises nothing.
    """
    loop = NetworkSelector()
    manager = KafkaConnectionManager(loop, bootstrap_servers=address, **security)

    async def exchange() -> Any:
        connection = manager.get_connection(
            "bootstrap-0",
            timeout_ms=TIMEOUT_MS,
            pop_on_close=False,
            refresh_metadata_on_err=False,
        )
        await manager.wait_for(connection.init_future, TIMEOUT_MS)
        return await connection.send_request(request, request_timeout_ms=TIMEOUT_MS)

    try:
        return loop.run(exchange)
    finally:
        manager.close()
        loop.close()
