"""Which settings may be shown and which hold secrets; each is in one of the two (as Lido's are).

Secret ones are URLs: of them scheme, host and port are shown, and what else is in them is blacked
out wherever it turns up. No setting holds a key or a password of a keystore: those lie in files.
"""

from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

SECRET = frozenset(
    {
        "database.url",
        "chain.endpoints",
        "chain.websocket",
        "keys.signer_remote_url",
        "keys.transmitter_remote_url",
        "keys.dispatcher_remote_url",
        "keys.kms_endpoint",
        "reporters.peers",
    }
)

# A shorter part of a path is a word ("v3", "mainnet"), and would black out half the log.
_SHORTEST = 16
_SHORTEST_PASSWORD = 6


def secret_parts(urls: Iterable[str]) -> Iterator[str]:
    """Yield what must not be seen of URLs: passwords, tokens in paths and in queries."""
    for url in urls:
        try:
            parts = urlsplit(url)
        except ValueError:
            # It is refused where it is used.
            continue
        if parts.scheme.startswith("sqlite"):
            continue
        password = parts.password or ""
        if len(password) >= _SHORTEST_PASSWORD:
            yield from {password, unquote(password)}
        found = [*parts.path.split("/"), *(value for _, value in parse_qsl(parts.query))]
        yield from (part for part in found if len(part) >= _SHORTEST)
