"""Text that may be shown: without what is secret, and without what moves a terminal's cursor.

Values given to `hide` are blacked out; addresses of endpoints and databases lose all but scheme,
host and port. Imports nothing that is slow: the last line of every command goes through it.
"""

import re
from urllib.parse import urlsplit

BLACKED_OUT = "[redacted]"

# Not the sign of a sentence after it.
_URL = re.compile(r"\b[a-z][a-z0-9+]*://[^\s'\"<>)\]}]*[^\s'\"<>)\]}:;,]", re.IGNORECASE)
_PLACE = re.compile(r"\d{1,3}")
# A piece of a host name as long as a key, of letters and digits: no word, no name of a machine.
_TOKEN_IN_HOST = re.compile(r"(?=[a-z0-9]*[0-9])(?=[a-z0-9]*[a-z])[a-z0-9]{16,}", re.IGNORECASE)

_hidden: set[str] = set()


def hide(value: str) -> None:
    """Black this value out wherever it turns up from now on; blanks are ignored."""
    if value.strip():
        _hidden.add(value)


def tokens_in_host(host: str) -> list[str]:
    """Return the parts of a host name that look like keys: providers have a host name for each."""
    return _TOKEN_IN_HOST.findall(host)


def without_secrets(text: str) -> str:
    """Return the text with URLs cut down to scheme, host and port, and hidden values gone."""
    # Addresses first: they must still be such when they are cut down.
    return without_hidden(_URL.sub(lambda found: _origin(found.group()), text))


def without_hidden(text: str) -> str:
    """Return the text with the values that were given to `hide` gone, in whatever case."""
    # A copy: other threads may learn of more meanwhile.
    for secret in _hidden.copy():
        if secret.lower() in text.lower():
            text = re.sub(re.escape(secret), BLACKED_OUT, text, flags=re.IGNORECASE)
    return text


def escaped(text: str) -> str:
    """Return all of a text with what cannot be printed escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        # What others write need not be an address.
        return f"{url.partition('://')[0]}://{BLACKED_OUT}"
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    # SQLite's addresses are files: nothing in them is secret.
    if parts.scheme.startswith("sqlite"):
        return url
    # Which of several keys at one host it is (chain/providers/roll.py).
    place = _PLACE.fullmatch(parts.fragment)
    return f"{parts.scheme}://{parts.hostname or ''}{port}{f'#{place[0]}' if place else ''}"
