"""Marks settings that hold secrets by the type mark `SECRET`; all other settings are public.

Secret settings are URLs: scheme, host and port are shown, and the other parts are redacted in
every log and error. No setting contains a key or a keystore password: those are in files.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, get_args, get_origin
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from oracle.telemetry.safe_text import tokens_in_host


class SecretMark:
    """Marks a type in an annotation: its values are redacted and left out of every `repr`."""


SECRET: Final = SecretMark()
SecretText = Annotated[str, SECRET]

# A shorter part of a path is a common word ("v3", "mainnet") that would redact half the log.
_SHORTEST = 16
_SHORTEST_PASSWORD = 6
# Parameters of libpq that are passwords, however short.
_PASSWORDS = frozenset({"password", "sslpassword"})


def is_secret(setting: FieldInfo) -> bool:
    """Return whether a setting, or a part of its value, is of a secret type."""
    return SECRET in setting.metadata or _has_secret(setting.annotation)


def _has_secret(annotation: object) -> bool:
    if get_origin(annotation) is Annotated:
        kind, *marks = get_args(annotation)
        return SECRET in marks or _has_secret(kind)
    return any(map(_has_secret, get_args(annotation)))


def secret_settings(config: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield the section and the name of each secret setting."""
    for section, field in config.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                settings = kind.model_fields.items()
                yield from ((section, name) for name, setting in settings if is_secret(setting))


def secret_values(model: BaseModel) -> Iterator[str]:
    """Yield the secret texts of all sections of a configuration."""
    for name, setting in type(model).model_fields.items():
        value = getattr(model, name)
        if is_secret(setting):
            yield from _secret_texts(value, setting.annotation)
        else:
            for part in _parts(value):
                if isinstance(part, BaseModel):
                    yield from secret_values(part)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, tuple) else (value,)


def _secret_texts(value: object, annotation: object) -> Iterator[str]:
    """Yield the texts of a secret setting; of a table, the keys or values marked secret."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        yield from value
    elif isinstance(value, Mapping):
        of_key, of_value = get_args(annotation)
        if _has_secret(of_key):
            yield from value
        if _has_secret(of_value):
            yield from value.values()


def is_secret_in(written: Mapping[str, object], config: type[BaseModel]) -> bool:
    """Return whether the raw settings of a file contain a secret."""
    return any(secret_parts(_urls_in(written, config)))


def _urls_in(written: Mapping[str, object], config: type[BaseModel]) -> Iterator[str]:
    for section, name in secret_settings(config):
        tables = written.get(section)
        for table in tables if isinstance(tables, list) else [tables]:
            value = table.get(name) if isinstance(table, Mapping) else None
            texts = value if isinstance(value, list) else [value]
            yield from (text for text in texts if isinstance(text, str))


def secret_parts(urls: Iterable[str]) -> Iterator[str]:
    """Yield the secret parts of URLs: passwords, and tokens in any part."""
    for url in urls:
        try:
            parts = urlsplit(url)
        except ValueError:
            # The code that uses the URL rejects it.
            continue
        if parts.scheme.startswith("sqlite"):
            continue
        yield from _credentials(parts)
        yield from tokens_in_host(parts.hostname or "")
        queried = parse_qsl(parts.query)
        yield from (value for name, value in queried if _is_password(name, value))
        found = [*parts.path.split("/"), *(value for _, value in queried)]
        yield from (part for part in found if len(part) >= _SHORTEST)


def _credentials(parts: SplitResult) -> Iterator[str]:
    """Yield the secret user name and password, as written and as sent.

    A user name is secret if it has no password beside it, as tokens have, or is as long as a
    token; a database's user name is not secret.
    """
    user, password = parts.username or "", parts.password or ""
    is_database = parts.scheme.startswith("postgres")
    shortest = _SHORTEST if password else _SHORTEST_PASSWORD
    if user and not is_database and len(user) >= shortest:
        yield from {user, unquote(user)}
    if len(password) >= _SHORTEST_PASSWORD:
        yield from {password, unquote(password)}


def _is_password(name: str, value: str) -> bool:
    return name in _PASSWORDS and len(value) >= _SHORTEST_PASSWORD
