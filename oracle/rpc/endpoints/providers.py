"""Finds the providers of endpoints, and counts independent witnesses.

Two endpoints of the same provider count as one witness. The provider of an endpoint is set in
`chain.providers`, or is derived from the host of its URL
(docs/explanation/endpoints.md#providers).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from socket import SOCK_STREAM, getaddrinfo, inet_aton
from urllib.parse import urlsplit

# Domain suffixes of private networks. Each host in them counts as a separate provider.
_PRIVATE_SUFFIXES = frozenset({"internal", "lan", "local", "localdomain", "localhost", "arpa"})
_REGISTERED_LABELS = 2
# All addresses of this machine are replaced by this one.
_LOOPBACK = "127.0.0.1"
# Number of witnesses that must agree, if the pool has that many.
_MIN_WITNESSES = 2


@dataclass(frozen=True, slots=True)
class WitnessQuorum:
    """Counts the witnesses among endpoints, and decides how many must agree.

    `provider_by_endpoint` contains every configured endpoint by name. Quarantined endpoints are
    included, so that an endpoint can never decide alone because the others are quarantined. A
    witness is a provider, or an endpoint if all endpoints belong to the same provider.
    """

    provider_by_endpoint: Mapping[str, str]

    @property
    def size(self) -> int:
        """The number of witnesses that must agree: two, or one if there is only one."""
        return min(_MIN_WITNESSES, self.count_witnesses(self.provider_by_endpoint))

    @property
    def has_many_providers(self) -> bool:
        """Whether the configured endpoints have more than one provider."""
        return len(set(self.provider_by_endpoint.values())) >= _MIN_WITNESSES

    @property
    def witness_kind(self) -> str:
        """The word for a witness in messages: "provider" or "endpoint"."""
        return "provider" if self.has_many_providers else "endpoint"

    def get_witness(self, endpoint: str) -> str:
        """Return the witness to which an endpoint belongs.

        The provider of an endpoint that is no longer configured is derived from its host.
        """
        if not self.has_many_providers:
            return endpoint
        return self.provider_by_endpoint.get(endpoint) or get_provider(endpoint)

    def count_witnesses(self, endpoints: Iterable[str]) -> int:
        """Count the different witnesses among endpoints, given by name."""
        return len(set(map(self.get_witness, endpoints)))

    def is_reached_by(self, endpoints: Iterable[str]) -> bool:
        """Return whether these endpoints are enough witnesses to accept their result.

        They agree on the result.
        """
        return self.count_witnesses(endpoints) >= self.size

    def list_endpoints_of_same_witness(self, endpoint: str) -> frozenset[str]:
        """Return the names of all endpoints that belong to this endpoint's witness."""
        witness = self.get_witness(endpoint)
        same_witness_names = (
            name for name in self.provider_by_endpoint if self.get_witness(name) == witness
        )
        return frozenset({endpoint, *same_witness_names})


def get_host(url: str) -> str:
    """Return the host of a URL in lower case, or an empty string if it has none."""
    return (urlsplit(url).hostname or "").rstrip(".").lower()


def get_provider(url: str, provider_by_host: Mapping[str, str] | None = None) -> str:
    """Return the provider of the endpoint at `url`.

    `provider_by_host` maps hosts to provider names. The provider of any other host is its
    registered domain, which is assumed to be the last two labels, so `a.example.com` and
    `b.example.com` have the same provider. Each IP address is a provider of its own. On the
    loopback interface each port is a provider, because a tunnel to another host may listen there;
    `localhost` and all loopback addresses are the same host.
    """
    host = get_host(url)
    if provider_by_host is not None and host in provider_by_host:
        return provider_by_host[host]
    host = _canonicalize_host(host)
    if host == _LOOPBACK:
        return f"{host}:{_get_port(url)}"
    host_labels = host.split(".")
    if _parse_ip_address(host) is not None or host_labels[-1] in _PRIVATE_SUFFIXES:
        return host
    return ".".join(host_labels[-_REGISTERED_LABELS:])


def find_repeated_url(
    urls: Sequence[str], provider_by_host: Mapping[str, str]
) -> tuple[int, int] | None:
    """Return the positions of two URLs that have the same address.

    Positions count from 1. The result is None if all addresses differ. Scheme, case of the host,
    its spelling if it is an IP address, default port, and slashes at the end make no difference. A
    user name, a path or a query may be a key, so they do. A host with a configured provider is
    another host than its other spellings.
    """
    position_by_address: dict[object, int] = {}
    for position, url in enumerate(urls, start=1):
        address = _parse_address(url.strip(), provider_by_host)
        earlier_position = position_by_address.setdefault(address, position)
        if address is not None and earlier_position != position:
            return earlier_position, position
    return None


def list_shared_address_warnings(
    urls: Sequence[str], provider_by_host: Mapping[str, str]
) -> list[str]:
    """Return a warning for each IP address shared by endpoints of different providers.

    The hosts are resolved by DNS. A host that cannot be resolved is skipped. A shared address
    proves nothing, because endpoints of different providers may use the same content delivery
    network. The warnings do not contain the hosts, because a host may contain a key.
    """
    positions_by_address: dict[str, list[int]] = defaultdict(list)
    for position, url in enumerate(urls, start=1):
        for address in _resolve_addresses(url):
            positions_by_address[address].append(position)
    address_by_positions: dict[tuple[int, ...], str] = {}
    for address, positions in positions_by_address.items():
        providers = {get_provider(urls[position - 1], provider_by_host) for position in positions}
        if len(providers) > 1:
            address_by_positions.setdefault(tuple(positions), address)
    return [
        f"endpoints {', '.join(map(str, positions))} have the same address {address}, but count "
        "as different providers; if one operator runs them, give their hosts one name in "
        "chain.providers"
        for positions, address in address_by_positions.items()
    ]


def _resolve_addresses(url: str) -> set[str]:
    """Resolve the IP addresses of a URL's host.

    If the host is this machine, they include the port.
    """
    try:
        port = _get_port(url)
        address_infos = getaddrinfo(get_host(url), port, type=SOCK_STREAM)
    except (OSError, ValueError):
        return set()
    hosts = {_canonicalize_host(str(address_info[4][0])) for address_info in address_infos}
    return {f"{host}:{port}" if host == _LOOPBACK else host for host in hosts}


def _parse_address(
    url: str, provider_by_host: Mapping[str, str]
) -> tuple[str, str, int, str, str] | None:
    """Split a URL into user, canonical host, port, path and query.

    The result is None for an invalid URL.
    """
    try:
        url_parts, host, port = urlsplit(url), get_host(url), _get_port(url)
    except ValueError:
        # The invalid URL is ignored here, because the endpoint's client reports it.
        return None
    user_info = url_parts.netloc.rpartition("@")[0]
    if host not in provider_by_host:
        host = _canonicalize_host(host)
    return user_info, host, port, url_parts.path.rstrip("/"), url_parts.query


def _canonicalize_host(host: str) -> str:
    """Return a host in canonical form.

    The form is the same for `localhost` and this machine's addresses.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return _LOOPBACK
    address = _parse_ip_address(host)
    if address is None:
        return host
    # A connection to the unspecified address reaches this machine.
    return _LOOPBACK if address.is_loopback or address.is_unspecified else str(address)


def _parse_ip_address(host: str) -> IPv4Address | IPv6Address | None:
    """Parse a host as an IP address, or return None if it is a name.

    Spellings such as `127.1` are accepted.
    """
    try:
        address = ip_address(host)
    except ValueError:
        try:
            # `inet_aton` accepts the same spellings as the system's resolver, and it sends no DNS
            # query.
            return IPv4Address(inet_aton(host))
        except (OSError, ValueError):
            return None
    ipv4_address = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if ipv4_address is None else ipv4_address


def _get_port(url: str) -> int:
    url_parts = urlsplit(url)
    return url_parts.port or (443 if url_parts.scheme == "https" else 80)
