"""Removes secrets and terminal control characters from displayed text.

Values registered with `register_secret` are replaced, and URLs of endpoints and databases are cut
to scheme, host and port. This module imports only fast modules, because every command uses it for
the last line of its output.
"""

import re
from urllib.parse import urlsplit

REDACTED = "[redacted]"

# The pattern does not include a punctuation mark that follows a URL in a sentence.
_URL = re.compile(r"\b[a-z][a-z0-9+]*://[^\s'\"<>)\]}]*[^\s'\"<>)\]}:;,]", re.IGNORECASE)
_KEY_POSITION = re.compile(r"\d{1,3}")
# A part of a host name that is as long as a key and mixes letters and digits, unlike words and the
# names of machines.
_TOKEN_IN_HOST = re.compile(r"(?=[a-z0-9]*[0-9])(?=[a-z0-9]*[a-z])[a-z0-9]{16,}", re.IGNORECASE)

_hidden: set[str] = set()


def register_secret(value: str) -> None:
    """Redact this value in all later output, unless it is blank."""
    if value.strip():
        _hidden.add(value)


def find_api_keys_in_host(host: str) -> list[str]:
    """Return the parts of a host name that look like API keys.

    Some providers put the key into the host name.
    """
    return _TOKEN_IN_HOST.findall(host)


def redact_secrets(text: str) -> str:
    """Redact secrets in a text, and cut URLs to scheme, host and port."""
    # URLs are cut first, because a URL with a redacted part would no longer be recognised.
    return redact_registered_secrets(_URL.sub(lambda match: _strip_url(match.group()), text))


def redact_registered_secrets(text: str) -> str:
    """Redact registered secrets in a text, whatever their letter case."""
    # The set is copied, because other threads may register more secrets meanwhile.
    for secret in _hidden.copy():
        if secret.lower() in text.lower():
            text = re.sub(re.escape(secret), REDACTED, text, flags=re.IGNORECASE)
    return text


def escape_unprintable(text: str) -> str:
    """Escape the unprintable characters in a text."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _strip_url(url: str) -> str:
    try:
        url_parts = urlsplit(url)
    except ValueError:
        # A text of another program may look like a URL without being valid.
        return f"{url.partition('://')[0]}://{REDACTED}"
    try:
        port = f":{url_parts.port}" if url_parts.port else ""
    except ValueError:
        port = ""
    # A SQLite URL is a file path and contains no secrets.
    if url_parts.scheme.startswith("sqlite"):
        return url
    # A fragment that is a number distinguishes the endpoints of the same host
    # (rpc/endpoints/endpoint_list.py).
    key_position = _KEY_POSITION.fullmatch(url_parts.fragment)
    fragment = f"#{key_position[0]}" if key_position else ""
    return f"{url_parts.scheme}://{url_parts.hostname or ''}{port}{fragment}"
