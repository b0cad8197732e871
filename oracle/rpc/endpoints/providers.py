"""Which provider serves an endpoint, and how many witnesses several endpoints are.

Two URLs of one provider count as one witness.

A provider is named in `chain.providers`, or follows from the host of the URL
(docs/explanation/endpoints.md#providers).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

# Names under these are given out by whoever runs the network: each host is a machine of its own.
_PRIVATE_SUFFIXES = frozenset({"internal", "lan", "local", "localdomain", "localhost", "arpa"})
_REGISTERED_LABELS = 2
# So many witnesses have to agree, where there are so many.
_ENOUGH = 2


@dataclass(frozen=True, slots=True)
class WitnessQuorum:
    """Counts the witnesses among endpoints, and holds how many of them have to agree.

    `provider_by_endpoint` has every configured endpoint, by its name, also those that are
    quarantined: nobody decides alone because another one is shut out. A witness is a provider. In
    a pool of a single provider a witness is an endpoint, for nothing else can be counted there.
    """

    provider_by_endpoint: Mapping[str, str]

    @property
    def size(self) -> int:
        """How many witnesses have to agree: two, or the only one."""
        return min(_ENOUGH, self.count(self.provider_by_endpoint))

    @property
    def has_many_providers(self) -> bool:
        """Whether the settings name endpoints of two or more providers."""
        return len(set(self.provider_by_endpoint.values())) >= _ENOUGH

    @property
    def witness_kind(self) -> str:
        """What a witness is called in messages: a provider or an endpoint."""
        return "provider" if self.has_many_providers else "endpoint"

    def witness_of(self, endpoint: str) -> str:
        """Return the witness that the endpoint of this name is, or is one of.

        An endpoint of earlier settings belongs to the provider that its host tells.
        """
        if not self.has_many_providers:
            return endpoint
        return self.provider_by_endpoint.get(endpoint) or provider_of(endpoint)

    def count(self, endpoints: Iterable[str]) -> int:
        """Return how many witnesses these endpoints are, by their names."""
        return len(set(map(self.witness_of, endpoints)))

    def is_reached_by(self, endpoints: Iterable[str]) -> bool:
        """Tell whether these endpoints are enough to believe what they agree on."""
        return self.count(endpoints) >= self.size

    def same_witness(self, endpoint: str) -> frozenset[str]:
        """Return the endpoint and all that are one witness with it."""
        witness = self.witness_of(endpoint)
        others = (name for name in self.provider_by_endpoint if self.witness_of(name) == witness)
        return frozenset({endpoint, *others})


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
