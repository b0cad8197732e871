"""What a listener is told: where it listens, what it gives away, whose certificates it wants.

There is one for who watches the daemon and one for the other reporters, each with its own
numbers (docs/explanation/daemon.md#http).
"""

import resource
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import InputError
from oracle.signing.keystore import refuse_readable_by_others

# A listener takes no more than this share of the descriptors that the process may open: endpoints
# and the database have theirs, whatever knocks.
_SHARE_OF_DESCRIPTORS = 6
_LEAST_CONNECTIONS = 8
# Connections that the kernel holds until they are taken; Linux has no more by itself.
_BACKLOG = 4096
# What the process asks for, where it may: one listener's connections, six times and more.
_WANTED_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Take as many descriptors as the process may have: shells give it 1,024 to begin with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    wanted = _WANTED_DESCRIPTORS if hard == infinite else min(hard, _WANTED_DESCRIPTORS)
    if soft != infinite and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """What strangers get of a listener.

    `connections` at once, `per_address` of them from one address (IPv6: one network of 64 bits);
    a request must be complete within `header_timeout_seconds`, and the client must read the
    response within `response_timeout_seconds`.
    `requests_per_second`: on average from one address, five seconds' worth at once. `body_bytes`:
    the largest accepted request body; 0: none. Half of the connections are kept for answers, and
    never more than `most_answers`: the server has forty threads, and most answers need none.
    `streams`: answers without an end at the same time, beside the others; they have no deadline.
    """

    connections: int = 8192
    per_address: int = 6144
    header_timeout_seconds: float = 10.0
    response_timeout_seconds: float = 30.0
    requests_per_second: float = 20.0
    body_bytes: int = 0
    most_answers: int = 64
    streams: int = 0

    @property
    def answers(self) -> int:
        """Requests that are answered at the same time."""
        return min(self.most_answers, self._room // 2)

    @property
    def waiting(self) -> int:
        """Connections whose requests may be unfinished at the same time."""
        return self._room - self.answers

    @property
    def _room(self) -> int:
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed == resource.RLIM_INFINITY:
            return self.connections
        share = max(_LEAST_CONNECTIONS, allowed // _SHARE_OF_DESCRIPTORS)
        return min(self.connections, share)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Files (PEM) of an https listener; with `client_ca` only its clients get in (mTLS)."""

    certificate: Path
    certificate_key: Path
    client_ca: Path | None = None

    def context(self, section: str) -> ssl.SSLContext:
        """Read the files.

        Raises:
            InputError: one is missing or no PEM, or others may read the key; it names `section`.
        """
        try:
            refuse_readable_by_others(self.certificate_key)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.client_ca)
            context.load_cert_chain(self.certificate, self.certificate_key)
        except OSError as error:
            # Errors of OpenSSL are of this kind, too; none holds anything of the key.
            why = error.strerror or type(error).__name__
            raise InputError(f"[{section}] certificate: cannot be used: {why}") from None
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass(frozen=True, slots=True)
class Listener:
    """One door: its section of the settings, its place, and what it gives away."""

    section: str
    host: str
    port: int
    limits: ListenerLimits = ListenerLimits()
    tls: ServerTls | None = None

    def listen(self) -> socket.socket:
        """Listen at once, before anything serves: a taken port is the user's to know.

        Raises:
            InputError: the port is in use, or the host is none of this machine's.
        """
        try:
            listening = socket.create_server((self.host, self.port), backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(
                f"{self.section}.host and {self.section}.port: cannot listen on "
                f"{self.host}:{self.port}: {why}"
            ) from error
        listening.setblocking(False)
        return listening
