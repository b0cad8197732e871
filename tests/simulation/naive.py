"""A naive publisher, in which the simulation must detect faults; otherwise it proves nothing.

The design is that of a task relay in production (docs/explanation/crynux.md): it has a row for
each effect, sends a transaction, and then records that it was sent. A transaction without a
receipt at its deadline counts as failed, and the effect is sent again as a new transaction with a
new nonce. The first receipt ends the row. No error in the publisher is deliberate.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.rpc.pool import EndpointPool
from oracle.signing.signer import Fees, TransactionRequest
from oracle.txmgr.client.send_raw import send_raw_transaction
from tests.simulation.goals import Goals
from tests.simulation.wires import US, PaperSigner, pool_in
from tests.simulation.world import Died, World

_CONTRACT = Address("0x" + "0c" * 20)
_DEADLINE_SECONDS = 180
_GAS_LIMIT = 130_000
_AT_ONCE = 4


@dataclass
class Row:
    """A row of the naive publisher's database, which survives every crash."""

    effect: str
    state: str = "pending"
    tx_hash: str = ""
    sent_at: int = 0


@dataclass
class NaivePublisher:
    """A naive publisher.

    Any number of processes may work on `rows`, like the pods of one deployment.
    """

    world: World
    goals: Goals
    rows: list[Row]
    log: Callable[[str], None] = lambda _: None
    _pool: EndpointPool | None = None
    _nonce: int | None = None
    _back_at: int = 0
    _signer: PaperSigner = field(init=False)

    def __post_init__(self) -> None:
        self._signer = PaperSigner(self.world)

    def turn(self) -> None:
        """Work for the duration of one block, if the process is alive."""
        if self.world.number < self._back_at:
            return
        try:
            self._work()
        except TransientError as error:
            self.log(f"  tries again: {error}")
        except Died as error:
            self.log(f"  ends: {error!r}")
            self._pool = self._nonce = None
            self._back_at = self.world.number + self.world.dice.randint(0, 12)

    def _work(self) -> None:
        if self._pool is None:
            self._pool = pool_in(self.world, lambda _: None)
        lines = self._pool.create_view()
        now = self.world.fetch_heads().latest.time
        self._want()
        for row in [candidate for candidate in self.rows if candidate.state == "sent"]:
            self._check_receipt(lines, row, now)
        for row in [candidate for candidate in self.rows if candidate.state == "pending"]:
            self._send(lines, row, now)

    def _want(self) -> None:
        """Write rows for the next effects."""
        known_effects = {row.effect for row in self.rows}
        under_way = sum(row.state != "done" for row in self.rows)
        fresh = [effect for effect in self.goals.all if effect not in known_effects]
        self.rows += [Row(effect) for effect in fresh[: max(_AT_ONCE - under_way, 0)]]

    def _check_receipt(self, lines: PoolView, row: Row, now: int) -> None:
        """Mark a row as done or as pending by its transaction's receipt and its deadline.

        The deadline is checked first: a late transaction counts as failed, and its effect is
        wanted again.
        """
        if now > row.sent_at + _DEADLINE_SECONDS:
            row.state, self._nonce = "pending", None
            return
        receipt = lines.request("eth_getTransactionReceipt", row.tx_hash)
        self.world.point("after a receipt")
        if receipt is not None:
            row.state = "done" if int(receipt["status"], 16) == 1 else "pending"

    def _send(self, lines: PoolView, row: Row, now: int) -> None:
        if self._nonce is None:
            self._nonce = int(lines.request("eth_getTransactionCount", US, "pending"), 16)
        fees = self._fees(lines)
        call = TransactionRequest(31337, self._nonce, _CONTRACT, row.effect, _GAS_LIMIT, fees)
        signed = self._signer.sign_transaction(call)
        assert self._pool is not None
        answer = send_raw_transaction(self._pool, signed.raw)
        self.world.point("after a send, before its mark")
        if not answer.is_accepted:
            # The nonce may have been wrong, so it is requested again.
            self._nonce = None
            return
        row.state, row.tx_hash, row.sent_at = "sent", signed.hash, now
        self._nonce += 1
        self.world.point("after a commit")

    def _fees(self, lines: PoolView) -> Fees:
        block = lines.request("eth_getBlockByNumber", "latest", False)
        tip = 10**9
        return Fees(2 * int(block["baseFeePerGas"], 16) + tip, tip)

    def list_executed_effects(self) -> set[str]:
        """Return the effects that the publisher believes to be executed."""
        return {row.effect for row in self.rows if row.state == "done"}
