"""Opens a listener's socket and certificates, and computes its limits.

Monitoring, the other reporters and the public API have separate listeners, each with its own
section of settings (docs/explanation/daemon.md#http).
"""

import resource
import socket
import ssl

from oracle.daemon.config.listener_section import ListenerSection
from oracle.errors import InputError
from oracle.signing.keystore import check_private_file_mode

# A listener may use at most a sixth of the process's file descriptors, however many clients
# connect, because endpoints and the database need the rest.
_DESCRIPTOR_SHARE = 6
_MIN_CONNECTIONS = 8
# Maximum number of connections that the kernel queues before they are accepted (Linux's default).
_BACKLOG = 4096
# Limit of file descriptors that the process requests. It is more than six times a listener's
# maximum number of connections.
_MAX_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Raise the soft limit on file descriptors, which is often only 1,024."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    new_limit = _MAX_DESCRIPTORS if hard_limit == unlimited else min(hard_limit, _MAX_DESCRIPTORS)
    if soft_limit != unlimited and soft_limit < new_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard_limit))


def get_max_concurrent_requests(section: ListenerSection) -> int:
    """Return how many requests may be handled at the same time.

    This is half of the connections of the listener, but at most `max_answers`.
    """
    return min(section.max_answers, _get_max_connections(section) // 2)


def get_max_pending_connections(section: ListenerSection) -> int:
    """Return how many connections may have incomplete requests."""
    return _get_max_connections(section) - get_max_concurrent_requests(section)


def _get_max_connections(section: ListenerSection) -> int:
    descriptor_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptor_limit == resource.RLIM_INFINITY:
        return section.max_connections
    max_connections = max(_MIN_CONNECTIONS, descriptor_limit // _DESCRIPTOR_SHARE)
    return min(section.max_connections, max_connections)


def build_tls_context(section: ListenerSection) -> ssl.SSLContext | None:
    """Build the TLS context from the section's files.

    The result is None if the section has no certificate.

    Raises:
        InputError: a file is missing or not PEM, or the key is readable by others; the message
            names the section.
    """
    if section.certificate is None or section.certificate_key is None:
        return None
    try:
        check_private_file_mode(section.certificate_key)
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=section.client_ca_file
        )
        context.load_cert_chain(section.certificate, section.certificate_key)
    except OSError as error:
        # OpenSSL's errors are OSErrors too; they never contain any part of the key.
        reason = error.strerror or type(error).__name__
        raise InputError(
            f"[{section.section_name}] certificate: cannot be used: {reason}"
        ) from None
    if section.client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def open_listening_socket(section: ListenerSection, port: int) -> socket.socket:
    """Open the listening socket, so that a port in use is reported at startup.

    Raises:
        InputError: the port is in use, or the host is not an address of this machine.
    """
    try:
        listening_socket = socket.create_server((section.host, port), backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        name = section.section_name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(
            f"{name}.host and {name}.port: cannot listen on {section.host}:{port}: {reason}"
        ) from error
    listening_socket.setblocking(False)
    return listening_socket
