"""The section `[reporters]`: who else signs, and who sends first; URLs may hold secrets."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from oracle.daemon.config.chain_section import Url
from oracle.daemon.config.section import Section


def _split(value: object) -> object:
    """Let the environment write a list as `a,b`."""
    return value.split(",") if isinstance(value, str) else value


class ReportersSection(Section):
    # Where the other reporters show what they signed.
    peers: Annotated[tuple[Url, ...], NoDecode, BeforeValidator(_split)] = Field(
        default=(), max_length=64, repr=False
    )
    # Between two looks at them, and how long one may take.
    poll_seconds: float = Field(default=2.0, gt=0, le=600)
    timeout_seconds: float = Field(default=2.0, gt=0, le=30)
    # Of several who transmit the first has rank 0; each waits so long for those before it.
    transmit_rank: int = Field(default=0, ge=0, le=100)
    transmit_delay_seconds: int = Field(default=60, ge=1, le=3600)
    # And so many blocks, whatever their time is.
    transmit_delay_blocks: int = Field(default=5, ge=1, le=1000)

    @property
    def head_start(self) -> int:
        """Seconds of the chain that we leave to those of a lower rank."""
        return self.transmit_rank * self.transmit_delay_seconds

    @property
    def blocks_ahead(self) -> int:
        """Blocks that we leave to them."""
        return self.transmit_rank * self.transmit_delay_blocks
