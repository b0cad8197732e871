"""Addresses of endpoints: they may hold keys, and only scheme, host and port are ever shown."""

from urllib.parse import parse_qsl, unquote, urlsplit

from oracle.errors import InputError
from oracle.telemetry.logging_setup import hide

# Shorter values are words and numbers that stand in every line of a log: no key, no password.
_SHORTEST_KEY = 8
_SHORTEST_PASSWORD = 4


def shown(url: str, schemes: tuple[str, ...], setting: str) -> str:
    """Return what may be shown of a URL, and have the rest blacked out wherever it turns up.

    Raises:
        InputError: it is no address of one of these schemes; the sentence names the setting.
    """
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname:
        forms = " or ".join(f"{scheme}://" for scheme in schemes)
        raise InputError(f"{setting}: an endpoint is an {forms} address")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise InputError(f"{setting}: an address has a port that is no number") from None
    words = [value for _, value in parse_qsl(parts.query)] + parts.path.split("/")
    keys = [word for word in words if len(word) >= _SHORTEST_KEY]
    names = [parts.username or "", parts.password or ""]
    keys += [name for name in names if len(name) >= _SHORTEST_PASSWORD]
    for key in keys:
        hide(key)
        hide(unquote(key))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}"
