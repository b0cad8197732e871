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
    # The chain that the daemon works for; checked at every start, at every endpoint.
    id: int = Field(gt=0)
    # JSON-RPC addresses, the first preferred; keys in them are never shown.
    endpoints: Urls = Field(min_length=1, repr=False)
    # `ws://` or `wss://`: says when to look, nothing else; polling goes on without it.
    websocket: WebsocketUrl | None = Field(default=None, repr=False)
    # A block that every endpoint must show with `chain.checkpoint_hash`; the genesis block is
    # compared anyway.
    checkpoint_block: int | None = Field(default=None, ge=0)
    # The hash of `chain.checkpoint_block`; give both or none.
    checkpoint_hash: BlockHash | None = None
    # The block in which the first contract was deployed.
    start_block: int = Field(default=0, ge=0)
    # Blocks under the head that are final, if the chain has no earlier word.
    finality_depth: int = Field(default=64, ge=1)
    # A final block is older than the head by so many seconds of block time as well; for
    # chains with quick blocks.
    finality_seconds: int = Field(default=0, ge=0)
    # How often to look for a new block.
    poll_seconds: float = Field(default=1.0, gt=0, le=600)
    # The largest answer that is read, in MiB (1 to 1,024). What is larger is asked for in
    # parts: fewer blocks, then one block by its transactions (`block_read_by_transaction` in
    # the log), which takes a request for every hundred of them. Memory holds some ten times
    # as much.
    most_answer_mib: int = Field(default=64, ge=1, le=1024)

    @model_validator(mode="after")
    def _checkpoint_is_whole(self) -> Self:
        if (self.checkpoint_block is None) != (self.checkpoint_hash is None):
            raise ValueError("checkpoint_block and checkpoint_hash: give both or none")
        return self
