"""How the oracle contract stands, and how far the chain is: for who asks beside the daemon."""

from contextlib import closing
from dataclasses import dataclass

from oracle.app import App
from oracle.domain.block import BlockRef
from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.publisher.contract import OracleContract, newest_block
from oracle.publisher.line import Line, Lines

# Who only looks does not wait for long.
_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ContractState:
    """The contract at one look; times in unix seconds of the chain."""

    round: int
    pushed_at: int
    paused_until: int
    kicks_paused: bool


@dataclass(frozen=True, slots=True)
class ChainView:
    """One look at the chain; `unknown` says why something of it is not known.

    `head`: the newest block; `contract` None: there is none, or it is not known.
    """

    head: BlockRef | None
    contract: ContractState | None = None
    unknown: str | None = None

    @property
    def paused_until(self) -> int | None:
        """Return until when the contract takes no report; None: it takes them, as far as known."""
        if self.contract is None or self.head is None:
            return None
        until = self.contract.paused_until
        return until if until > self.head.time else None

    def answer(self) -> dict[str, object]:
        """Write what is known of the contract for programs."""
        told = self.contract
        return {
            "round": None if told is None else told.round,
            "pushed_at": None if told is None or not told.round else told.pushed_at,
            "paused_until": self.paused_until,
            "kicks_paused": None if told is None else told.kicks_paused,
            "unknown": self.unknown,
        }


def ask_chain(app: App) -> ChainView:
    """Ask the endpoints; one that is silent is waited for three seconds."""
    told = app.config
    address = told.oracle.address
    with closing(Lines([Line(url, timeout_seconds=_SECONDS) for url in told.chain.endpoints])) as (
        lines
    ):
        try:
            lines.check_chain(told.chain.id)
            if address is None:
                return ChainView(newest_block(lines))
            standing = OracleContract(lines, Address(address)).standing()
        except (TransientError, InputError) as error:
            return ChainView(None, unknown=str(error))
    head = standing.head
    state = ContractState(head.round, head.pushed_at, head.paused_until, head.kicks_paused)
    return ChainView(standing.block, state)
