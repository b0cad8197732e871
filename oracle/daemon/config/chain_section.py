"""The section `[chain]`: which chain, through which endpoints, from where, how deep is final."""

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from oracle.daemon.config.sections import Section, Urls


def _websocket_url(value: str) -> str:
    if urlsplit(value).scheme not in {"ws", "wss"} or not urlsplit(value).hostname:
        raise ValueError("a websocket is a ws:// or wss:// address")
    return value


def _hash(value: str) -> str:
    if re.fullmatch(r"0x[0-9a-fA-F]{64}", value) is None:
        raise ValueError("a block hash is 0x and 64 hex digits")
    return value.lower()


WebsocketUrl = Annotated[str, AfterValidator(_websocket_url)]
BlockHash = Annotated[str, AfterValidator(_hash)]


class ChainSection(Section):
    id: int = Field(gt=0)
    # The first is preferred. May hold keys in path or query.
    endpoints: Urls = Field(min_length=1, repr=False)
    # Tells of new blocks; may hold keys too.
    websocket: WebsocketUrl | None = Field(default=None, repr=False)
    # A block that every endpoint must show with this hash.
    anchor_block: int | None = Field(default=None, ge=0)
    anchor_hash: BlockHash | None = None
    start_block: int = Field(default=0, ge=0)
    finality_depth: int = Field(default=64, ge=1)
    # On top of the depth: so many seconds of block time.
    finality_seconds: int = Field(default=0, ge=0)
    poll_seconds: float = Field(default=1.0, gt=0, le=600)
    # The largest answer of an endpoint that is read: what is larger is asked for in parts.
    most_answer_mib: int = Field(default=64, ge=1, le=1024)

    @model_validator(mode="after")
    def _anchor_is_whole(self) -> Self:
        if (self.anchor_block is None) != (self.anchor_hash is None):
            raise ValueError("anchor_block and anchor_hash: give both or none")
        return self
