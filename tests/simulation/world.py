"""The chain, the endpoints, the clock, and the mishaps while publishers work."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from oracle.chain.heads import Heads
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from tests.simulation.chain import GWEI, Block, Chain, Tx
from tests.simulation.mishaps import Setting, Weather
from tests.simulation.node import Node

_MOST_LAG = 4
_ETHER = 100 * 10**18
_LONG_STALL = 3
_LATER = 60


class Died(BaseException):
    """The process has died: nothing may catch this exception."""


@dataclass
class World:
    """The simulated world.

    A process may die or stall at each `point`: around commits, sends and signatures.
    """

    setting: Setting
    seed: int
    nodes: list[Node] = field(init=False)
    # What other workers do while one is stalled; set by the code that runs the world.
    others: Callable[[int], None] = lambda _: None
    is_nested: bool = False
    _down: dict[int, int] = field(default_factory=dict)
    _spike_ends: int = 0
    _drought_ends: int = 0
    _jump: float = 0.0
    _final: int = 0

    def __post_init__(self) -> None:
        # Not for secrets.
        self.dice = Random(self.seed)  # noqa: S311
        self.weather = Weather(self.dice, self.setting.noise)
        asked_tip = int(self.setting.asked_tip * GWEI)
        self.chain = Chain(
            self.dice,
            failing=self.setting.failing,
            asked_tip=asked_tip,
            attic_chance=self.setting.attic,
        )
        self.nodes = [
            Node(
                self.chain,
                takes_gaps=place == 0 or self.dice.random() < 0.5,
                wants_base_fee=place == 1 and self.dice.random() < 0.5,
                finality=self.setting.finality,
            )
            for place in range(self.setting.endpoints)
        ]

    @property
    def number(self) -> int:
        return self.chain.head.number

    def clock(self) -> float:
        """Return the Unix seconds of the machine's clock, which may jump.

        The chain's time does not.
        """
        return self.chain.head.time + self._jump

    def seconds(self) -> float:
        """Return seconds that never jump."""
        return float(self.chain.head.time)

    # --- blocks ---

    def mine(self) -> None:
        """Mine one block, and let mishaps happen."""
        self._change_weather()
        if self.weather.strikes("reorg", 0.03) and self.number > self.setting.finality:
            depth = self.dice.randint(1, self.setting.finality - 1)
            orphaned = self.chain.fork(depth, self._offered())
        else:
            orphaned = []
            self.chain.mine(self._offered())
        for node in self.nodes:
            if self.dice.random() < 0.6:
                node.take_back(orphaned)
            self._let_see(node)

    def calm(self) -> None:
        """End all mishaps, so that the remaining work can finish."""
        self.weather.calm()
        self.chain.calm_fee = self._usual_fee()
        self.chain.ether = _ETHER
        self._down.clear()
        self._jump = 0.0
        for node in self.nodes:
            node.is_full = False
            node.takes_gaps, node.wants_base_fee = True, False

    def _let_see(self, node: Node) -> None:
        lag = self.number - node.view.head.number
        if lag > _MOST_LAG or not self.weather.strikes("lag", 0.25):
            node.follow()

    def _offered(self) -> dict[int, list[Tx]]:
        txs_by_nonce: dict[int, list[Tx]] = {}
        for node in self.nodes:
            for nonce, tx in node.pool.items():
                nonce_txs = txs_by_nonce.setdefault(nonce, [])
                if tx not in nonce_txs:
                    nonce_txs.append(tx)
        return txs_by_nonce

    def _change_weather(self) -> None:
        self._change_money()
        if self.weather.strikes("clock jumps", 0.005):
            self._jump = self.dice.choice((-3600.0, 0.0, 3600.0))
        if self.weather.strikes("all down", 0.004):
            until = self.number + self.dice.randint(10, 120)
            self._down = dict.fromkeys(range(len(self.nodes)), until)
        if self.weather.strikes("all pools lost", self.setting.forgetful):
            for node in self.nodes:
                node.pool.clear()
        for place, node in enumerate(self.nodes):
            self._trouble(place, node)

    def _change_money(self) -> None:
        """Raise fees for a while, or remove the account's ether for a while."""
        dice, now = self.dice, self.number
        if now >= self._spike_ends:
            self.chain.calm_fee = self._usual_fee()
        if self.weather.strikes("spike", 0.02):
            self.chain.calm_fee = dice.randint(2, 20) * 10 * GWEI
            self._spike_ends = now + dice.randint(10, 50)
        if now >= self._drought_ends:
            self.chain.ether = _ETHER
        if self.weather.strikes("drought", 0.008):
            self.chain.ether = self.chain.head.spent + dice.randint(0, 10**16)
            self._drought_ends = now + dice.randint(3, 30)

    def _usual_fee(self) -> int:
        """Return the base fee without a spike, in wei."""
        return (10 if self.number < _LATER else self.setting.later_fee) * GWEI

    def _trouble(self, place: int, node: Node) -> None:
        """Let one endpoint lose its pool, reject transactions for a block, or go down."""
        node.is_full = self.weather.strikes("pool full", 0.02)
        if self.weather.strikes("pool lost", 0.02):
            node.pool.clear()
        if self.weather.strikes("down", 0.01):
            self._down[place] = self.number + self.dice.randint(1, 12)

    # --- what publishers see ---

    def is_down(self, place: int) -> bool:
        """Return whether an endpoint cannot be reached."""
        return self._down.get(place, 0) > self.number

    def fetch_heads(self) -> Heads:
        """Return the heads from the first endpoint that responds; the final block never goes back.

        Raises:
            TransientError: no endpoint responds.
        """
        for place, node in enumerate(self.nodes):
            if self.is_down(place) or self.weather.strikes("no heads", 0.05):
                continue
            blocks = node.view.blocks
            self._final = max(self._final, len(blocks) - 1 - self.setting.finality)
            if self._final < len(blocks):
                return Heads(_ref(blocks[-1]), None, _ref(blocks[self._final]))
        raise TransientError("no endpoint answers")

    # --- where a process may die or stall ---

    def point(self, name: str) -> None:
        """Mark a point at which a process may die, or may stall while the world continues.

        Raises:
            Died: the process died.
        """
        if self.weather.strikes(f"died {name}", 0.006):
            raise Died(name)
        if not self.is_nested and self.weather.strikes(f"stalled {name}", 0.006):
            self.is_nested = True
            try:
                self.others(self.dice.randint(1, 4 * _LONG_STALL))
            finally:
                self.is_nested = False


def _ref(block: Block) -> BlockRef:
    parent = "0x" + 64 * "0" if block.parent is None else block.parent.hash
    return BlockRef(block.number, Hash(block.hash), Hash(parent), block.time)
