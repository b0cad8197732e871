"""The configuration of a listener: its address, its limits and its certificates.

Monitoring and the other reporters have separate listeners, each with its own limits
(docs/explanation/daemon.md#http).
"""

import resource
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import InputError
from oracle.signing.keystore import check_private_file_mode

# A listener may use at most one in this many of the process's descriptors: endpoints and the
# database need the others, however many clients connect.
_DESCRIPTOR_SHARE = 6
_MIN_CONNECTIONS = 8
# Connections that the kernel queues until they are accepted; the Linux default limit is the same.
_BACKLOG = 4096
# The descriptor limit that the process requests: more than six times one listener's connections.
_MAX_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Raise the soft limit of file descriptors, which shells often set to 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    new_limit = _MAX_DESCRIPTORS if hard == infinite else min(hard, _MAX_DESCRIPTORS)
    if soft != infinite and soft < new_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The limits of a listener towards its clients.

    At most `connections` may be open at once, and `per_address` from one address (IPv6: one /64
    network). A request must be complete in `header_timeout_seconds`, and its response received in
    `response_timeout_seconds`. `requests_per_second` is an average for one address, with bursts of
    five seconds. `body_bytes` is the largest accepted request body; 0 accepts none. Half of the
    connections are kept for responses, but at most `max_answers`, because the server has forty
    threads and most responses need none. `streams` is the number of concurrent endless responses
    in addition to the others; they have no deadline.
    """

    connections: int = 8192
    per_address: int = 6144
    header_timeout_seconds: float = 10.0
    response_timeout_seconds: float = 30.0
    requests_per_second: float = 20.0
    body_bytes: int = 0
    max_answers: int = 64
    streams: int = 0

    @property
    def answer_slots(self) -> int:
        """The maximum number of requests that are handled at the same time."""
        return min(self.max_answers, self._connection_slots // 2)

    @property
    def waiting_slots(self) -> int:
        """The maximum number of connections with incomplete requests."""
        return self._connection_slots - self.answer_slots

    @property
    def _connection_slots(self) -> int:
        descriptor_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptor_limit == resource.RLIM_INFINITY:
            return self.connections
        share = max(_MIN_CONNECTIONS, descriptor_limit // _DESCRIPTOR_SHARE)
        return min(self.connections, share)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The PEM files of an https listener; with `client_ca`, clients need certificates (mTLS)."""

    certificate: Path
    certificate_key: Path
    client_ca: Path | None = None

    def build_context(self, section: str) -> ssl.SSLContext:
        """Build the TLS context from the files.

        Raises:
            InputError: a file is missing or not PEM, or the key is readable by others; the message
                names `section`.
        """
        try:
            check_private_file_mode(self.certificate_key)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.client_ca)
            context.load_cert_chain(self.certificate, self.certificate_key)
        except OSError as error:
            # OpenSSL errors are OSErrors, too; none contains any part of the key.
            reason = error.strerror or type(error).__name__
            raise InputError(f"[{section}] certificate: cannot be used: {reason}") from None
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener: its settings section, its address, its limits and its TLS files."""

    section: str
    host: str
    port: int
    limits: ListenerLimits = ListenerLimits()
    tls: ServerTls | None = None

    def open_socket(self) -> socket.socket:
        """Open the listening socket at once, so that a port in use is an error at the start.

        Raises:
            InputError: the port is in use, or the host is not an address of this machine.
        """
        try:
            listening_socket = socket.create_server((self.host, self.port), backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(
                f"{self.section}.host and {self.section}.port: cannot listen on "
                f"{self.host}:{self.port}: {reason}"
            ) from error
        listening_socket.setblocking(False)
        return listening_socket
