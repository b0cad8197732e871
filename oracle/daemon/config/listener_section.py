"""The listener sections: `[web]` for monitoring, `[statements]` for peers, `[api]` for anyone.

Each listener has its own address, certificate and limits. The settings that all listeners have are
defined in a common base class.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode
from typing_extensions import override

from oracle.daemon.config.sections import (
    Section,
    find_incomplete_pair_faults,
    split_comma_separated,
)


class ListenerSection(Section):
    section_name: ClassVar[str]
    # The largest accepted request body; 0 accepts no body.
    body_bytes: ClassVar[int] = 0
    # The maximum number of requests that are handled at the same time. It exceeds the number of
    # the server's threads (forty), because most responses need no thread.
    max_answers: ClassVar[int] = 64

    # The local address on which the listener accepts connections.
    host: str = "127.0.0.1"
    # Certificate chain (PEM), with which the listener serves https instead of http.
    certificate: Path | None = None
    # Private key of `certificate` (PEM, mode 600).
    certificate_key: Path | None = None
    # Certificate authorities of clients (PEM): only clients with a certificate get a response
    # (mTLS).
    client_ca_file: Path | None = None
    # The maximum number of concurrent connections; it is never more than a sixth of the process's
    # file descriptors. At the limit, the connection that has waited longest is closed.
    max_connections: int = Field(default=8192, ge=8, le=65_536)
    # The maximum number of concurrent connections of one address (IPv6: of one /64 network) whose
    # requests are incomplete.
    max_connections_per_address: int = Field(default=6144, ge=1, le=65_536)
    # Maximum seconds from the connection to the end of a request's headers.
    header_timeout_seconds: float = Field(default=10.0, gt=0, le=600)
    # Maximum seconds from the end of the headers until the client has received the response.
    response_timeout_seconds: float = Field(default=30.0, gt=0, le=600)
    # Maximum average of requests per second from one address; a burst may contain the requests of
    # five seconds.
    requests_per_second: float = Field(default=20.0, gt=0, le=100_000)

    @property
    def stream_limit(self) -> int:
        """The maximum number of event streams, in addition to other responses.

        Streams have no deadline.
        """
        return 0


class WebSection(ListenerSection):
    section_name = "web"

    # Maximum average of requests per second from one address; a burst may contain the requests of
    # five seconds. `/livez` is not limited.
    requests_per_second: float = Field(default=100.0, gt=0, le=100_000)
    # Port of `/livez`, `/readyz`, `/metrics`, `/v1/operations` and `/v1/outbox`. Keep this port
    # private, because it has no password. 0 uses any free port.
    port: int = Field(default=8080, ge=0, le=65_535)


class StatementsSection(ListenerSection):
    section_name = "statements"

    # Port of `/v1/report`, for the other reporters; 0 uses any free port. Without it, signatures
    # are not published.
    port: int | None = Field(default=None, ge=0, le=65_535)


class ApiSection(ListenerSection):
    section_name = "api"
    # The largest request describes a task for which nodes are to be selected.
    body_bytes = 16 * 1024

    # Whether `run` serves `/v1` as well; `qos-oracle serve` always serves it.
    enabled: bool = False
    # Port of the public read API; 0 uses any free port.
    port: int = Field(default=8090, ge=0, le=65_535)
    # The maximum number of open streams of `/v1/events`, in addition to other connections.
    max_streams: int = Field(default=1200, ge=0, le=65_536)
    # The maximum number of open streams of one client address (IPv6: of one /64 network).
    max_streams_per_address: int = Field(default=64, ge=1, le=65_536)
    # Seconds after which a stream ends; clients resume it with `Last-Event-ID`.
    stream_seconds: float = Field(default=3600.0, gt=0, le=86_400)
    # Origins whose web pages may read the API in a browser (`https://example.org`); `*` allows all
    # origins.
    cors: Annotated[
        tuple[str, ...],
        NoDecode,
        BeforeValidator(split_comma_separated),
        Field(max_length=64),
    ] = ()

    @property
    @override
    def stream_limit(self) -> int:
        return self.max_streams


def find_listener_warnings(statements: StatementsSection, peers: Sequence[str]) -> list[str]:
    """Return a warning if peers are configured but this reporter publishes no signatures."""
    if peers and statements.port is None:
        return ["statements.port: missing; the peers cannot fetch this reporter's signatures"]
    return []


def find_listener_faults(
    web: WebSection, statements: StatementsSection, api: ApiSection
) -> list[str]:
    """Return a message for each conflict between settings of listeners."""
    faults = []
    for section in (web, statements, api):
        name = section.section_name
        faults += find_incomplete_pair_faults(name, section, "certificate", "certificate_key")
        if section.client_ca_file is not None and section.certificate is None:
            faults.append(f"{name}.client_ca_file: requires {name}.certificate")
    if statements.port and (web.host, web.port) == (statements.host, statements.port):
        faults.append(
            "web.port and statements.port: same port; use two ports, because other reporters use "
            "the second"
        )
    for section in (web, statements):
        if api.enabled and api.port and (section.host, section.port) == (api.host, api.port):
            faults.append(
                f"{section.section_name}.port and api.port: same port; use two ports, because the "
                "API is public"
            )
    return faults
