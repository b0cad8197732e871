"""Finds secrets in the settings by the `SECRET` mark of their types.

Secret settings are URLs. Their scheme, host and port are shown, and the other parts are redacted
in every log and error. No setting contains a key or a keystore password, because these are stored
in files.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, get_args, get_origin
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from oracle.telemetry.safe_text import find_api_keys_in_host


class SecretMark:
    """Marks a type as secret: its values are redacted in logs and omitted from every `repr`."""


SECRET: Final = SecretMark()
SecretText = Annotated[str, SECRET]

# Shorter path segments are not redacted, because many are common words ("v3", "mainnet").
_MIN_TOKEN_LENGTH = 16
_MIN_PASSWORD_LENGTH = 6
# libpq's password parameters are redacted even if they are short.
_PASSWORD_PARAMETERS = frozenset({"password", "sslpassword"})


def is_secret_setting(setting: FieldInfo) -> bool:
    """Return whether a setting's type, or a part of the type, is marked as secret."""
    return SECRET in setting.metadata or _is_secret_type(setting.annotation)


def _is_secret_type(annotation: object) -> bool:
    if get_origin(annotation) is Annotated:
        base_type, *metadata = get_args(annotation)
        return SECRET in metadata or _is_secret_type(base_type)
    return any(map(_is_secret_type, get_args(annotation)))


def iter_secret_settings(config: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield the section and the name of each secret setting."""
    for section, field in config.model_fields.items():
        for section_type in (field.annotation, *get_args(field.annotation)):
            if isinstance(section_type, type) and issubclass(section_type, BaseModel):
                model_fields = section_type.model_fields.items()
                yield from (
                    (section, name) for name, setting in model_fields if is_secret_setting(setting)
                )


def iter_secret_values(model: BaseModel) -> Iterator[str]:
    """Yield the secret strings of all sections of a configuration."""
    for name, setting in type(model).model_fields.items():
        value = getattr(model, name)
        if is_secret_setting(setting):
            yield from _iter_secret_texts(value, setting.annotation)
        else:
            for part in _iter_nested_values(value):
                if isinstance(part, BaseModel):
                    yield from iter_secret_values(part)


def _iter_nested_values(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, tuple) else (value,)


def _iter_secret_texts(value: object, annotation: object) -> Iterator[str]:
    """Yield the secret strings of a setting.

    In a table, these are the keys or values whose type is marked as secret.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        yield from value
    elif isinstance(value, Mapping):
        key_type, value_type = get_args(annotation)
        if _is_secret_type(key_type):
            yield from value
        if _is_secret_type(value_type):
            yield from value.values()


def has_secret_value(raw_settings: Mapping[str, object], config: type[BaseModel]) -> bool:
    """Return whether the raw settings of a file contain a secret value."""
    return any(iter_secret_url_parts(_iter_secret_urls(raw_settings, config)))


def _iter_secret_urls(
    raw_settings: Mapping[str, object], config: type[BaseModel]
) -> Iterator[str]:
    for section, name in iter_secret_settings(config):
        section_tables = raw_settings.get(section)
        for table in section_tables if isinstance(section_tables, list) else [section_tables]:
            value = table.get(name) if isinstance(table, Mapping) else None
            url_texts = value if isinstance(value, list) else [value]
            yield from (text for text in url_texts if isinstance(text, str))


def iter_secret_url_parts(urls: Iterable[str]) -> Iterator[str]:
    """Yield the secret parts of URLs: passwords, and tokens in any part."""
    for url in urls:
        try:
            url_parts = urlsplit(url)
        except ValueError:
            # Skipped here; the code that uses the URL rejects it.
            continue
        if url_parts.scheme.startswith("sqlite"):
            continue
        yield from _iter_url_credentials(url_parts)
        yield from find_api_keys_in_host(url_parts.hostname or "")
        query_fields = parse_qsl(url_parts.query)
        yield from (
            value
            for name, value in query_fields
            if name in _PASSWORD_PARAMETERS and len(value) >= _MIN_PASSWORD_LENGTH
        )
        candidate_parts = [*url_parts.path.split("/"), *(value for _, value in query_fields)]
        yield from (part for part in candidate_parts if len(part) >= _MIN_TOKEN_LENGTH)


def _iter_url_credentials(parts: SplitResult) -> Iterator[str]:
    """Yield a URL's secret user name and password, both raw and decoded.

    A user name is secret if the URL has no password, because tokens are often passed in this way,
    or if it is as long as a token. The user name of a database is not secret.
    """
    username = parts.username or ""
    password = parts.password or ""
    is_database = parts.scheme.startswith("postgres")
    min_user_length = _MIN_TOKEN_LENGTH if password else _MIN_PASSWORD_LENGTH
    if username and not is_database and len(username) >= min_user_length:
        yield from {username, unquote(username)}
    if len(password) >= _MIN_PASSWORD_LENGTH:
        yield from {password, unquote(password)}
