"""The sections of listeners: `[web]` for who watches, `[statements]`, and `[api]` for anybody.

Each has its own place, certificate and limits; the settings that all have stand here once.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from oracle.daemon.config.sections import Section, split_list
from oracle.daemon.web.listener import Listener, ListenerLimits, ServerTls

# A task to select nodes for, and nothing larger.
_BODY_BYTES = 16 * 1024


class ListenerSection(Section):
    # An address of this machine.
    host: str = "127.0.0.1"
    # Certificate (PEM, with those that vouch for it): https instead of http.
    certificate: Path | None = None
    # Its key (PEM, mode 600).
    certificate_key: Path | None = None
    # Who may vouch for clients (PEM): only those with a certificate get an answer (mTLS).
    client_ca_file: Path | None = None
    # Connections at the same time; a sixth of the descriptors that the process may open,
    # where those are fewer. Where there are too many, the one that waits longest goes.
    max_connections: int = Field(default=8192, ge=8, le=65_536)
    # Connections of one address at the same time, as long as their requests are not whole;
    # of IPv6, of one network of 64 bits.
    max_connections_per_address: int = Field(default=6144, ge=1, le=65_536)
    # From the connection to the end of a request's headers.
    header_timeout_seconds: float = Field(default=10.0, gt=0, le=600)
    # From there until the answer is taken.
    response_timeout_seconds: float = Field(default=30.0, gt=0, le=600)
    # Requests of one address, on average; five seconds' worth at once.
    requests_per_second: float = Field(default=20.0, gt=0, le=100_000)

    def _listener(self, section: str, port: int) -> Listener:
        limits = ListenerLimits(
            connections=self.max_connections,
            per_address=self.max_connections_per_address,
            header_timeout_seconds=self.header_timeout_seconds,
            response_timeout_seconds=self.response_timeout_seconds,
            requests_per_second=self.requests_per_second,
        )
        if self.certificate is None or self.certificate_key is None:
            return Listener(section, self.host, port, limits)
        tls = ServerTls(self.certificate, self.certificate_key, self.client_ca_file)
        return Listener(section, self.host, port, limits, tls)


class WebSection(ListenerSection):
    # Requests of one address, on average; five seconds' worth at once. `/livez` always gets its
    # answer.
    requests_per_second: float = Field(default=100.0, gt=0, le=100_000)
    # For `/livez`, `/readyz`, `/metrics`, `/v1/operations` and `/v1/outbox`. Keep it private:
    # there is no password. 0 takes any free port.
    port: int = Field(default=8080, ge=0, le=65_535)

    @property
    def listener(self) -> Listener:
        """Where who watches the daemon is answered."""
        return self._listener("web", self.port)


class StatementsSection(ListenerSection):
    # For `/v1/report` and `/v1/kick`, which other reporters ask; 0 takes any free port. None:
    # what is signed here is shown to nobody.
    port: int | None = Field(default=None, ge=0, le=65_535)

    @property
    def listener(self) -> Listener | None:
        """Where the other reporters are answered; None: nowhere."""
        return None if self.port is None else self._listener("statements", self.port)


class ApiSection(ListenerSection):
    # Whether `run` answers `/v1` as well; `qos-oracle serve` does so whatever stands here.
    enabled: bool = False
    # For the read API, which anybody may ask that reaches it; 0 takes any free port.
    port: int = Field(default=8090, ge=0, le=65_535)
    # Streams of `/v1/events` that are open at the same time, beside other connections.
    max_streams: int = Field(default=1200, ge=0, le=65_536)
    # Of these, streams of one client address (IPv6: of one network of 64 bits).
    max_streams_per_address: int = Field(default=64, ge=1, le=65_536)
    # Seconds after which a stream ends; clients resume it with `Last-Event-ID`.
    stream_seconds: float = Field(default=3600.0, gt=0, le=86_400)
    # Web pages that may read it in a browser, by origin (`https://example.org`); `*`: all.
    cors: Annotated[
        tuple[str, ...],
        NoDecode,
        BeforeValidator(split_list),
        Field(max_length=64),
    ] = ()

    @property
    def listener(self) -> Listener:
        """Where everybody is answered."""
        plain = self._listener("api", self.port)
        limits = replace(plain.limits, body_bytes=_BODY_BYTES, streams=self.max_streams)
        return replace(plain, limits=limits)


def warnings_of_listeners(statements: StatementsSection, peers: Sequence[str]) -> list[str]:
    """Return what deserves a thought: peers that are asked, and can ask nothing themselves."""
    if peers and statements.port is None:
        return ["statements.port: is not given: reporters.peers are not shown what is signed here"]
    return []


def faults_in_listeners(
    web: WebSection, statements: StatementsSection, api: ApiSection
) -> list[str]:
    """Return what cannot stand together, in one line each."""
    faults = []
    for name, section in (("web", web), ("statements", statements), ("api", api)):
        if (section.certificate is None) != (section.certificate_key is None):
            faults.append(f"{name}.certificate and {name}.certificate_key: give both or none")
        if section.client_ca_file is not None and section.certificate is None:
            faults.append(f"{name}.client_ca_file: needs {name}.certificate")
    if statements.port and (web.host, web.port) == (statements.host, statements.port):
        faults.append("web.port and statements.port: are the same; strangers come to one of them")
    for name, other in (("web", web), ("statements", statements)):
        if api.enabled and api.port and (other.host, other.port) == (api.host, api.port):
            faults.append(f"{name}.port and api.port: are the same; anybody may come there")
    return faults
