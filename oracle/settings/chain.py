"""The section `[chain]`: which chain, through which endpoints, from where, how deep is final."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from oracle.settings.section import Section


def _split(value: object) -> object:
    """Let the environment write a list as `a,b`."""
    return value.split(",") if isinstance(value, str) else value


def _http_url(value: str) -> str:
    if urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname:
        raise ValueError("an endpoint is an http:// or https:// address")
    return value


Url = Annotated[str, AfterValidator(_http_url)]


class Chain(Section):
    id: int = Field(gt=0)
    # The first is preferred. May hold keys in path or query.
    endpoints: Annotated[tuple[Url, ...], NoDecode, BeforeValidator(_split)] = Field(
        min_length=1, repr=False
    )
    start_block: int = Field(default=0, ge=0)
    finality_depth: int = Field(default=64, ge=1)
    poll_seconds: float = Field(default=1.0, gt=0, le=600)
