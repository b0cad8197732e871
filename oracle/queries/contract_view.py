"""How the oracle contract stands, and how far the chain is: for who asks beside the daemon."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from oracle.bindings.qos_oracle import OracleContract
from oracle.daemon.app import App
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.rpc.views.fanout import JsonRpcClient, PoolView
from oracle.txmgr.client.receipts import newest_block

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
    told, silences = app.config, list[TransientError]()
    address = told.oracle.address
    with closing(
        PoolView([JsonRpcClient(url, timeout_seconds=_SECONDS) for url in told.chain.endpoints])
    ) as (lines):
        speaking = PoolView(list(_speaking(lines, told.chain.id, silences)))
        if not speaking.all:
            return ChainView(None, unknown=str(silences[0]))
        try:
            speaking.check_chain(told.chain.id)
            near = speaking if folded is None else speaking.that_reached(folded)
            view = _seen_by(near, address)
        except TransientError as error:
            return ChainView(None, unknown=str(error))
    if view.head is not None and view.head.number < (folded or 0) - READY_WITHIN_BLOCKS:
        return ChainView(None, unknown=f"who answers is itself at block {view.head.number} only")
    return view


def _speaking(
    lines: PoolView, chain_id: int, silences: list[TransientError]
) -> Iterator[JsonRpcClient]:
    """Yield who answers at all; of the others, note why."""
    for line in lines.all:
        try:
            line.serves(chain_id)
        except TransientError as error:
            silences.append(error)
        else:
            yield line


def _seen_by(lines: PoolView, address: str | None) -> ChainView:
    if address is None:
        return ChainView(newest_block(lines))
    standing = OracleContract(lines, Address(address)).standing()
    head = standing.head
    state = ContractState(head.round, head.pushed_at, head.paused_until, head.kicks_paused)
    return ChainView(standing.block, state)
