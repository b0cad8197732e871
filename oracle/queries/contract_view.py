"""How the oracle contract stands, and how far the chain is: for who asks beside the daemon."""

from contextlib import closing
from dataclasses import dataclass

from oracle.bindings.qos_oracle import OracleContract, newest_block
from oracle.daemon.app import App
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.rpc.pool import EndpointPool

# Behind by more blocks than this, the daemon is not ready, and an endpoint is of no use to ask.
READY_WITHIN_BLOCKS = 10
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


def ask_chain(app: App, folded: int | None = None) -> ChainView:
    """Ask the endpoints; one that is silent is waited for three seconds, and asked once.

    Who has not come as far as block `folded`, which we have, says nothing of today.
    """
    told = app.config
    address = told.oracle.address
    with closing(EndpointPool.open(told.chain.endpoints, told.chain.id)) as pool:
        try:
            speaking = pool.view(_SECONDS).that_answer(told.chain.id)
            speaking.check_chain(told.chain.id)
            near = speaking if folded is None else speaking.that_reached(folded)
            view = _seen_by(near, address)
        except TransientError as error:
            return ChainView(None, unknown=str(error))
    if view.head is not None and view.head.number < (folded or 0) - READY_WITHIN_BLOCKS:
        return ChainView(None, unknown=f"who answers is itself at block {view.head.number} only")
    return view


def _seen_by(lines: PoolView, address: str | None) -> ChainView:
    if address is None:
        return ChainView(newest_block(lines))
    standing = OracleContract(lines, Address(address)).standing()
    head = standing.head
    state = ContractState(head.round, head.pushed_at, head.paused_until, head.kicks_paused)
    return ChainView(standing.block, state)
