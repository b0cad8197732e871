"""Which provider serves an endpoint: two URLs of one provider count as one witness.

A provider is named in `chain.providers`, or follows from the host of the URL
(docs/explanation/endpoints.md#providers).
"""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

# Names under these are given out by whoever runs the network: each host is a machine of its own.
_PRIVATE_SUFFIXES = frozenset({"internal", "lan", "local", "localdomain", "localhost", "arpa"})
_REGISTERED_LABELS = 2


def host_of(url: str) -> str:
    """Return the host of a URL, in lower case; empty where the URL has none."""
    return (urlsplit(url).hostname or "").rstrip(".").lower()


def provider_of(url: str, named: Mapping[str, str] | None = None) -> str:
    """Return the provider of the endpoint at `url`.

    `named` maps a host to the name of its provider. A host that is not named there belongs to its
    registered domain, taken to be the last two labels: `a.example.com` and `b.example.com` are
    one provider. An address belongs to its machine; on the loopback interface each port is a
    provider of its own, for what listens there may be a tunnel.
    """
    host = host_of(url)
    if named is not None and host in named:
        return named[host]
    try:
        address = ip_address(host)
    except ValueError:
        labels = host.split(".")
        if host == "localhost":
            return f"{host}:{_port(url)}"
        is_private = labels[-1] in _PRIVATE_SUFFIXES
        return host if is_private else ".".join(labels[-_REGISTERED_LABELS:])
    return f"{host}:{_port(url)}" if address.is_loopback else host


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)
