"""Reads the outbox with separate SQL and checks the outbox's invariants.

The module uses no code of the product; it judges what the product stored, requested and sent. See
docs/explanation/transactions.md#invariants.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

from oracle.telemetry.outbox_counts import BucketCounts, OutboxStatistics
from tests.simulation.chain import Block, hash_of
from tests.simulation.money import Money
from tests.simulation.statements import Statements
from tests.simulation.world import World

_ENDS = frozenset({"final", "reverted", "superseded", "cancelled", "expired", "rejected"})
_OURS = frozenset({"push", "other"})


class Wished(NamedTuple):
    """The state of the newest intent for an effect.

    `tries`: the number of intents for the effect so far. `is_over`: none of the signed
    transactions can land any more.
    """

    state: str
    tries: int
    is_over: bool


@dataclass
class Books:
    """Reads one database, and collects the faults that it finds."""

    path: Path
    world: World
    faults: list[str] = field(default_factory=list)
    # The final slots with their blocks, and how far the rows have been read.
    _final: dict[int, bytes] = field(default_factory=dict)
    _journal_read: int = 0
    _events: dict[int, str] = field(default_factory=dict)
    _epochs: int = 0
    # The nonce of every transaction that was sent, by its hash; and the highest number of
    # attempts.
    _left: dict[str, int] = field(default_factory=dict)
    _attempts: int = 0
    # Whether the account was paused at the last check, and the number of attempts then.
    _was_paused: bool = False
    _signed_before: int = 0

    def __post_init__(self) -> None:
        self._rows = sqlite3.connect(self.path, isolation_level=None)
        self._money = Money(self._rows, self.world)
        self._statements = Statements(self._rows, self.world)

    def close(self) -> None:
        self._rows.close()

    def expire_lease(self) -> None:
        """Expire the lease, which ends by the database's clock."""
        self._rows.execute("UPDATE lease SET until_ms = 0")

    def fold_to(self, block: Block) -> None:
        """Move the cursor and the final block, as an indexer at the head of the chain would."""
        blocks = [block]
        while block.number - blocks[-1].number < self.world.setting.finality:
            if blocks[-1].parent is None:
                break
            blocks.append(blocks[-1].parent)
        final_block = blocks[-1]
        self._rows.execute(
            "UPDATE cursor SET number = ?, time = ?, final_number = ?",
            (block.number, block.time, final_block.number),
        )
        self._rows.execute("DELETE FROM block")
        # Statements of the simulation name no block hash, so neither do the blocks.
        no_hash = bytes(32)
        self._rows.executemany(
            "INSERT INTO block VALUES (?, ?, ?, ?, 1)",
            [(stored.number, no_hash, no_hash, stored.time) for stored in blocks],
        )

    # --- queries of planners ---

    def requests(self) -> dict[str, Wished]:
        """Return the state of the newest intent for each effect, by calldata."""
        wished_by_effect: dict[str, Wished] = {}
        rows = self._rows.execute(
            "SELECT i.calldata, i.state, s.state, s.won_attempt IS NULL,"
            " EXISTS (SELECT 1 FROM pub_attempt a WHERE a.intent_id = i.id)"
            " FROM pub_intent i LEFT JOIN pub_nonce s ON s.nonce = i.nonce"
            " WHERE i.kind IN ('push', 'other') ORDER BY i.id"
        )
        for calldata, state, slot, _, is_signed in rows:
            effect = "0x" + calldata.hex()
            tries = wished_by_effect[effect].tries + 1 if effect in wished_by_effect else 1
            is_over = state in _ENDS and (slot == "final" or not is_signed)
            wished_by_effect[effect] = Wished(state, tries, is_over)
        return wished_by_effect

    # --- the invariants ---

    def saw_send(self, raw: str) -> None:
        """Check I2, I3 and I4: sent bytes and their nonce are already in the database."""
        content = bytes.fromhex(raw[2:])
        nonce_rows = self._rows.execute(
            "SELECT s.nonce FROM pub_attempt a JOIN pub_nonce s ON s.nonce = a.nonce"
            " JOIN pub_account p WHERE a.raw_tx = ? AND s.nonce < p.next_nonce",
            (content,),
        ).fetchall()
        if len(nonce_rows) != 1:
            self._fault("I3", "bytes left that are not in the database")
            return
        self._left[hash_of(content)] = nonce_rows[0][0]

    def to_watch(self) -> set[str]:
        """Return the hashes of all sent or signed transactions that may still land.

        Transactions of a nonce that is mined, final or foreign are left out, because their block
        is watched.
        """
        over = {
            nonce
            for (nonce,) in self._rows.execute(
                "SELECT nonce FROM pub_nonce WHERE state IN ('mined', 'final', 'foreign')"
            )
        }
        stored = self._rows.execute("SELECT tx_hash, nonce FROM pub_attempt").fetchall()
        nonce_by_digest = {"0x" + digest.hex(): nonce for digest, nonce in stored} | self._left
        return {digest for digest, nonce in nonce_by_digest.items() if nonce not in over}

    def saw_watching(self, expected_hashes: set[str], requested_hashes: set[str]) -> None:
        """Check I8: a process that looks for receipts looks for every hash that may still land."""
        for digest in sorted(expected_hashes - requested_hashes):
            self._fault("I8", f"no process looked for {digest[:10]}")

    def check(self, balance: int | None = None, now: float | None = None) -> None:
        """Check everything that can be read from the database at one moment.

        Call it after a commit. `balance` is the balance in wei that the writer last received, and
        `now` is the writer's clock.
        """
        self._check_slots()
        self._check_attempts()
        self._check_pause()
        self._check_intents()
        self._check_journal()
        for fault in [*self._statements.check(), *self._money.check(balance, now)]:
            self._fault(*fault)

    def _check_slots(self) -> None:
        rows = self._rows.execute(
            "SELECT nonce, state, block_number, block_hash FROM pub_nonce ORDER BY nonce"
        ).fetchall()
        nonces = [row[0] for row in rows]
        next_nonce = self._rows.execute("SELECT next_nonce FROM pub_account").fetchone()
        if nonces != list(range(len(nonces))) or (next_nonce or (0,))[0] != len(nonces):
            self._fault("I5", f"nonces are {nonces}, the next one {next_nonce}")
        for nonce, state, number, digest in rows:
            if state == "foreign":
                self._fault("I7", f"nonce {nonce} is marked foreign, but no other program sends")
            if state == "final" and nonce not in self._final:
                self._final[nonce] = digest
                self._check_final(nonce, number, digest)

    def _check_final(self, nonce: int, number: int, digest: bytes) -> None:
        """Check I7: no fork of the permitted depth can revert a final nonce."""
        blocks = self.world.chain.branch.blocks
        depth = len(blocks) - 1 - number
        if depth < self.world.setting.finality or blocks[number].hash != "0x" + digest.hex():
            self._fault("I7", f"nonce {nonce} is called final {depth} blocks under the head")

    def _check_attempts(self) -> None:
        last: dict[int, tuple[int, int]] = {}
        nonce_of: dict[int, int] = {}
        epoch = 0
        rows = self._rows.execute(
            "SELECT nonce, intent_id, max_fee_wei, tip_wei, lease_epoch FROM pub_attempt"
            " ORDER BY id"
        ).fetchall()
        for nonce, intent, max_fee, tip, under in rows:
            fees = int.from_bytes(max_fee), int.from_bytes(tip)
            if nonce in last and any(
                10 * new < 11 * old for new, old in zip(fees, last[nonce], strict=True)
            ):
                self._fault("I12", f"nonce {nonce}: {fees} after {last[nonce]}")
            if fees[0] > self.world.setting.fee_cap * 10**9:
                self._fault("I12", f"nonce {nonce} pays {fees[0]}, above the cap")
            if nonce_of.setdefault(intent, nonce) != nonce:
                self._fault("I1", f"intent {intent} is signed at {nonce_of[intent]} and {nonce}")
            if under < epoch:
                self._fault("I13", f"nonce {nonce} was signed under {under}, after {epoch}")
            last[nonce], epoch = fees, under
        self._check_kept(len(rows))

    def _check_pause(self) -> None:
        """Check that nothing was signed since the last check, if the account was paused before."""
        count = self._rows.execute("SELECT count(*) FROM pub_attempt").fetchone()[0]
        is_paused = bool(
            self._rows.execute("SELECT count(*) FROM pub_account WHERE paused").fetchone()[0]
        )
        if self._was_paused and is_paused and count > self._signed_before:
            self._fault("pause", f"{count - self._signed_before} signed for a paused account")
        self._was_paused, self._signed_before = is_paused, count

    def _check_kept(self, count: int) -> None:
        """Check I8: no attempt is deleted, because a deleted attempt cannot be watched."""
        if count < self._attempts:
            self._fault("I8", f"{self._attempts - count} attempts are gone")
        self._attempts = count

    def _check_intents(self) -> None:
        pushes = self._rows.execute(
            "SELECT count(*) FROM pub_intent WHERE kind = 'push'"
            " AND state IN ('ready', 'assigned')"
        ).fetchone()[0]
        if pushes > 1:
            self._fault("I9", f"{pushes} pushes are open")
        ended = self._rows.execute(
            "SELECT i.id, i.state, s.state FROM pub_intent i"
            " JOIN pub_attempt a ON a.intent_id = i.id JOIN pub_nonce s ON s.nonce = a.nonce"
            " WHERE i.state IN ('expired', 'cancelled', 'rejected', 'held', 'superseded', 'ready',"
            " 'planned') AND s.state NOT IN ('mined', 'final')"
            # An intent that lost its nonce is marked when the winner is mined; an operator's no-op
            # also wins (docs/explanation/transactions.md#states). A fork may revert this: the hash
            # of the loser is still watched (I8), and the intent is over once its slot is final.
            " AND NOT (i.state IN ('superseded', 'cancelled') AND i.superseded_by = s.intent_id)"
        ).fetchall()
        for intent, state, slot in ended:
            self._fault("I6", f"intent {intent} is {state}, its nonce {slot}: it may still land")

    def _check_journal(self) -> None:
        """Check I13 and I15: each state has a journal entry, in the order of the leases."""
        rows = self._rows.execute(
            "SELECT id, intent_id, event, lease_epoch FROM pub_journal WHERE id > ? ORDER BY id",
            (self._journal_read,),
        )
        for line, intent, event, epoch in rows:
            self._journal_read = line
            if epoch is not None and epoch < self._epochs:
                self._fault("I13", f"line {line} was written under {epoch}, after {self._epochs}")
            self._epochs = max(self._epochs, epoch or 0)
            if intent is not None and event in _STATES:
                self._events[intent] = event
        states = dict(self._rows.execute("SELECT id, state FROM pub_intent").fetchall())
        for intent, state in states.items():
            if self._events.get(intent) != state:
                self._fault("I15", f"{intent} is {state}, its journal: {self._events.get(intent)}")

    # --- the end ---

    def check_spending(self) -> None:
        """Check I14: the spending in the database equals the spending on the chain."""
        rows = self._rows.execute(
            "SELECT gas_used, gas_price_wei FROM pub_nonce WHERE state = 'final'"
        )
        spent_wei = sum(gas * int.from_bytes(price) for gas, price in rows)
        if spent_wei != self.world.chain.head.spent:
            self._fault("I14", f"the books say {spent_wei} wei, the chain {_spent(self.world)}")

    def counts(self) -> dict[str, int]:
        """Return the number of signed attempts by reason."""
        rows = self._rows.execute("SELECT reason, count(*) FROM pub_attempt GROUP BY reason")
        return dict(rows.fetchall())

    def check_counters(self, living: OutboxStatistics, fresh: OutboxStatistics) -> None:
        """Check I14 and F74: counters that were updated continuously equal a recount."""
        along = _flatten_statistics(living)
        anew = _flatten_statistics(fresh)
        if along != anew:
            differing = [name for name, figure in anew.items() if along[name] != figure]
            self._fault("I14", f"counted along and anew {differing} differ")
        won = self._rows.execute(
            "SELECT count(*), sum(receipt_status), sum(gas_used) FROM pub_nonce"
            " WHERE state = 'final'"
        ).fetchone()
        outcomes = [
            sum(
                count
                for (_, recorded_outcome), count in fresh.outcomes.items()
                if recorded_outcome == outcome
            )
            for outcome in ("success", "reverted")
        ]
        if (sum(outcomes), outcomes[0], sum(fresh.gas.values())) != tuple(n or 0 for n in won):
            self._fault("I14", f"counters {outcomes} are not the rows {won}")

    def _fault(self, rule: str, message: str) -> None:
        fault = f"{rule}: {message}"
        if fault not in self.faults:
            self.faults.append(fault)


def _flatten_statistics(stats: OutboxStatistics) -> dict[str, object]:
    """Return every value of the statistics by name, in a form that can be compared."""
    return {
        figure_field.name: _plain(getattr(stats, figure_field.name))
        for figure_field in fields(stats)
    }


def _plain(figure: object) -> object:
    if isinstance(figure, Mapping):
        return {key: _plain(value) for key, value in figure.items()}
    return vars(figure) if isinstance(figure, BucketCounts) else figure


_STATES = _ENDS | {"planned", "ready", "assigned", "live", "mined", "held"}


def _spent(world: World) -> int:
    head: Block = world.chain.head
    return head.spent
