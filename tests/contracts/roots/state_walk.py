"""Random calls of an oracle of roots, whose events are folded and compared with its views."""

from collections import Counter
from collections.abc import Callable
from dataclasses import astuple
from random import Random
from typing import Any

from eth_account.signers.local import LocalAccount
from web3.exceptions import ContractCustomError

from oracle.chain.decode.oracle_logs import iterate_oracle_event_readers
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import ContractEvent
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.logs import Log
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.node_kicks import KickState, NodeKick
from oracle.domain.reports.rules_changes import list_changes_in_force
from oracle.domain.roots.leaves import LeafFlag
from oracle.store.database import Store
from tests.contracts.oracle_signing import SIGNERS, STRANGER
from tests.contracts.roots.due_leaves import DUE
from tests.contracts.roots.root_rounds import make_leaves, node_address
from tests.contracts.roots.roots_driver import (
    FOR_EVER,
    KICK_LIMITS,
    LIMITS,
    ZERO,
    deploy_roots,
)
from tests.support.contract_histories import ContractView, get_root
from tests.support.evm.chain import Chain, RevertedError

KEPT, LAG = 5, 1
NODES = 8
# Kickouts of these seats are due at times; the node at the last seat was expelled before.
SEATS = range(5)
QUICK_LIMITS = LIMITS | {"minInterval": 1, "vetoDelay": 20, "kickRounds": 1}
QUICK_KICK_LIMITS = KICK_LIMITS | {"bucketMost": 50, "kickCooldown": 200}
ACCOUNTS = (*SIGNERS, STRANGER)
REASONS = (b"appeal".ljust(32, b"\0"), b"recovered".ljust(32, b"\0"))
CONTRACT_STATES = {KickState.ACCUSED: 1, KickState.EXPELLED: 2, KickState.REFUSED: 3}
READER_BY_TOPIC = {event.digest: read for event, read in iterate_oracle_event_readers()}


class StateWalk:
    """A walk of a seed: the same calls every time.

    `done` counts the calls that succeeded, by name, and `events` the folded events.
    """

    def __init__(self, chain: Chain, store: Store, seed: int) -> None:
        self._chance = Random(seed)  # noqa: S311  the same walk again, no secret
        self._chain = chain
        self._last_block = chain.block
        self._expelled = node_address(NODES - 1)
        self.oracle = deploy_roots(
            chain,
            kept=KEPT,
            lag=LAG,
            limits=QUICK_LIMITS,
            kickLimits=QUICK_KICK_LIMITS,
            expelled=[chain.web3.to_checksum_address(self._expelled)],
        )
        self._listed: list[LocalAccount] = list(SIGNERS)
        self._signed_by: list[str] = []
        # By seat: the differing fields of a leaf whose kickout is due.
        self._due_fields: dict[int, dict[str, Any]] = {
            seat: DUE | {"kickout_due_since": 1_000} for seat in SEATS
        }
        self._store = store
        self.state = self.load_state()
        # The state after each block with an event.
        self.views: dict[int, ContractView] = {}
        self.call_counts: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self._check()
        self._execute_refused_kick()
        self._check()

    def play(self, steps: int) -> None:
        """Make this number of random calls.

        Raises:
            AssertionError: the folded state differs from the contract's.
        """
        calls: list[Callable[[], object]] = [
            *[self._push] * 4,
            *[self._accuse] * 6,
            *[self._execute] * 4,
            *[self._retry, self._readmit, self._refuse, self._allow] * 2,
            *[self._clear, self._veto, self._accuse_and_veto],
            *[self._strike, self._wait],
            *[self._set_signers, self._drop_signer, self._set_rules, self._set_target],
            *[self._set_limits, self._set_kick_limits],
        ]
        for _ in range(steps):
            call = self._chance.choice(calls)
            try:
                call()
            except RevertedError:
                pass
            else:
                self.call_counts[call.__name__.lstrip("_")] += 1
            self._check()

    def load_state(self) -> ContractState:
        """Return the stored state."""
        with self._store.read_transaction() as uow:
            accepted = uow.rounds.list_accepted(KEPT)
            return ContractState(
                KEPT,
                accepted_rounds=accepted,
                strikes=uow.rounds.list_strikes(accepted[0].round, None) if accepted else (),
                kicks=uow.rounds.list_kicks(),
                settings=uow.rounds.get_contract_settings(),
            )

    def undo_to(self, block: int) -> None:
        """Restore the stored state after a block."""
        with self._store.transaction() as uow:
            uow.cursor.clear()
            head = BlockRef(self._last_block, ZERO_HASH, ZERO_HASH, self._chain.time)
            uow.cursor.move_to(head, None, 0)
            uow.undo.rollback_to(block)

    # --- calls ---

    def _execute_refused_kick(self) -> None:
        """Execute a kickout that the network refuses, which not every walk would do by chance."""
        self.oracle.by_network("setRefuses", True)
        self._push_round()
        self.oracle.accuse(0)
        self._push_round()
        self._chain.at(self.oracle.kick(0)["readyAt"])
        self.oracle.execute(0)

    def _push(self) -> None:
        """Push a round in which another kickout is due than before, after the pause."""
        self._due_fields[self._draw_seat()] = self._draw_due_fields()
        self._push_round()

    def _push_round(self) -> None:
        quorum = self.oracle.head("quorum")
        self.oracle.signers = self._chance.sample(self._listed, quorum)
        self._chain.at(max(self.oracle.head("pausedUntil"), self._chain.time + 1))
        self.oracle.push_leaves(make_leaves(NODES, self._due_fields))
        self._signed_by = [signer.address.lower() for signer in self.oracle.signers]

    def _draw_due_fields(self) -> dict[str, Any]:
        if self._chance.random() < 0.2:
            return {}
        flags = LeafFlag.MEMBER
        if self._chance.random() < 0.2:
            flags |= LeafFlag.HELD
        # An interval that was stated long ago, or most often, one that has just begun, which no
        # veto and no readmission spares yet.
        recent = self._chain.time - self._chance.randrange(10)
        since = self._chance.choice([1_000, 2_000, *[recent] * 6])
        return DUE | {"kickout_due_since": since, "flags": flags}

    def _accuse(self) -> None:
        """Accuse a node, most often one whose last leaf permits it."""
        seat = self._draw_seat()
        if self._chance.random() < 0.8:
            seat = self._draw_seat_in_state(0)
            self._due_fields[seat] = self._draw_due_fields()
            self._push_round()
        self.oracle.accuse(seat)

    def _execute(self) -> None:
        """Execute the kickout of an accused node, most often when it can be executed."""
        seat = self._draw_seat_in_state(1)
        if self._chance.random() < 0.8:
            kick = self.oracle.kick(seat)
            rounds_to_wait = self.oracle.named("limits")["kickRounds"]
            while self.oracle.round < kick["round"] + rounds_to_wait:
                self._push_round()
            self._chain.at(max(kick["readyAt"], self._chain.time + 1))
        self.oracle.execute(seat)

    def _clear(self) -> None:
        sender = self._chance.choice([self.oracle.vetoer, self.oracle.transmitter])
        seat = self._draw_seat_in_state(1)
        if self._chance.random() < 0.6:
            self._due_fields[seat] = {}
            self._push_round()
        self.oracle.do("clear", *self.oracle.last_round.proven(seat), sender=sender)

    def _veto(self) -> None:
        self.oracle.veto(self._draw_seat_in_state(1), self._chance.choice(REASONS))

    def _accuse_and_veto(self) -> None:
        """Accuse a node, and cancel it in the same block."""
        seat = self._draw_seat()
        functions = self.oracle.contract.functions
        accusation = functions.accuse(*self.oracle.last_round.proven(seat))
        veto = functions.veto(self.oracle.node(seat), self._chance.choice(REASONS))
        self._chain.together(
            self._chain.request(accusation, sender=self.oracle.transmitter),
            self._chain.request(veto, sender=self.oracle.vetoer),
        )

    def _allow(self) -> None:
        due_since = self._chance.choice([0, 1_000, 2_000])
        node = self.oracle.node(self._draw_seat())
        self.oracle.do("allow", node, due_since, sender=self.oracle.vetoer)

    def _retry(self) -> None:
        self.oracle.retry(self._draw_seat_in_state(2, 3))

    def _readmit(self) -> None:
        node = self.oracle.node(self._draw_seat_in_state(2, 3))
        self.oracle.do("readmit", node, sender=self.oracle.admin)

    def _strike(self) -> None:
        """Strike some of the last rounds in a pause, which a later round waits for."""
        if self._chain.time >= self.oracle.head("pausedUntil"):
            self.oracle.do("pauseFor", 30, sender=self.oracle.pauser)
        first = self.oracle.round - self._chance.randrange(KEPT)
        self.oracle.do("strike", max(first, 1), sender=self.oracle.pauser)

    def _wait(self) -> None:
        self._chain.later(self._chance.randrange(1, 300))
        self._chain.mine()

    def _refuse(self) -> None:
        """Let the network refuse, or no longer refuse, to end a membership."""
        self.oracle.by_network("setRefuses", self._chance.random() < 0.7)

    def _set_target(self) -> None:
        target = self._chance.choice([ZERO, *[self.oracle.network.address] * 3])
        self.oracle.do("setTarget", target, sender=self.oracle.admin)

    def _set_signers(self) -> None:
        listed = self._chance.sample(ACCOUNTS, self._chance.randrange(1, 5))
        quorum = self._chance.randrange(len(listed) // 2 + 1, len(listed) + 1)
        addresses = [signer.address for signer in listed]
        self.oracle.do("setSigners", addresses, quorum, sender=self.oracle.admin)
        self._listed = listed

    def _drop_signer(self) -> None:
        dropped = self._chance.choice(self._listed)
        self.oracle.do("dropSigner", dropped.address, sender=self.oracle.pauser)
        self._listed = [signer for signer in self._listed if signer is not dropped]

    def _set_rules(self) -> None:
        rules_hash = self._chance.randbytes(32)
        self.oracle.do("setRules", rules_hash, sender=self.oracle.admin)

    def _set_limits(self) -> None:
        changes = {
            "vetoDelay": self._chance.randrange(60),
            "kickRounds": self._chance.randrange(3),
            "kickBelow": self._chance.choice([1_000, 5_000]),
        }
        new_limits = tuple((QUICK_LIMITS | changes).values())
        self.oracle.do("setLimits", new_limits, sender=self.oracle.admin)

    def _set_kick_limits(self) -> None:
        cooldown = self._chance.choice([1, 100, 100, FOR_EVER])
        new_limits = tuple((QUICK_KICK_LIMITS | {"kickCooldown": cooldown}).values())
        self.oracle.do("setKickLimits", new_limits, sender=self.oracle.admin)

    def _draw_seat(self) -> int:
        return self._chance.choice(SEATS)

    def _draw_seat_in_state(self, *states: int) -> int:
        """Return a seat whose node's kickout is in one of the contract's states, if there is one.

        The states are 0: none, 1: accused, 2: expelled, 3: refused.
        """
        seats = [seat for seat in (*SEATS, NODES - 1) if self.oracle.kick(seat)["state"] in states]
        return int(self._chance.choice(seats or SEATS))

    # --- the fold, compared with the contract ---

    def _check(self) -> None:
        """Fold the events since the last check, and compare the state with the contract's."""
        for block, events in self._read_new_events().items():
            self.state.fold_block(block, events, journal=True)
            with self._store.transaction() as uow:
                uow.rounds.save_changes(self.state.drain_changes())
            self.views[block] = ContractView.of(self.state)
            self.events.update(type(event).__name__ for event in events)
        seen = self._describe_fold()
        expected = self._describe_contract()
        assert seen == expected, self.call_counts

    def _read_new_events(self) -> dict[int, list[ContractEvent]]:
        first = self._last_block + 1
        self._last_block = self._chain.block
        span = {"fromBlock": hex(first), "toBlock": hex(self._last_block)}
        query = span | {"address": self.oracle.contract.address}
        events: dict[int, list[ContractEvent]] = {}
        for entry in self._chain.rpc("eth_getLogs", query):
            read = READER_BY_TOPIC.get(entry["topics"][0])
            if read is not None:
                log = self._as_log(entry)
                events.setdefault(log.block, []).append(read(log))
        return events

    def _as_log(self, entry: dict[str, Any]) -> Log:
        block = self._chain.rpc("eth_getBlockByNumber", entry["blockNumber"], False)
        return Log(
            block=int(entry["blockNumber"], 16),
            block_hash=Hash(entry["blockHash"]),
            time=int(block["timestamp"], 16),
            tx=int(entry["transactionIndex"], 16),
            tx_hash=Hash(entry["transactionHash"]),
            index=int(entry["logIndex"], 16),
            address=Address(entry["address"].lower()),
            topics=tuple(entry["topics"]),
            data=entry["data"],
        )

    @property
    def _nodes(self) -> list[Address]:
        return [*(node_address(seat) for seat in SEATS), self._expelled]

    def _describe_contract(self) -> dict[str, object]:
        oracle = self.oracle
        head = self.oracle.named("head")
        listed = [signer.lower() for signer in oracle.read("signers")]
        return {
            "head": tuple(head[name] for name in ("round", "asOf", "pushedAt")),
            "previous root": _format_hash(oracle.read("lastRoot")),
            "roots": {number: self._read_root(number) for number in _list_rounds(head["round"])},
            "configuration": (head["configCount"], _format_hash(oracle.read("configDigest"))),
            "rules": _format_hash(oracle.read("rulesHash")),
            "signers": (listed, head["quorum"]),
            "round signers": set(self._signed_by),
            "limits": oracle.read("limits"),
            "kick limits": oracle.read("kickLimits"),
            **{node: self._read_kick(node) for node in self._nodes},
        }

    def _read_root(self, number: int) -> Hash | None:
        try:
            return _format_hash(self.oracle.read("rootOf", number))
        except ContractCustomError:
            return None

    def _read_kick(self, node: Address) -> object:
        address = self._chain.web3.to_checksum_address(node)
        views = ("kickOf", "isExpelled", "isKickPending")
        return [self.oracle.read(view, address) for view in views]

    def _describe_fold(self) -> dict[str, object]:
        state, head, settings = self.state, self.state.head, self.state.settings
        limits, kick_limits = settings.limits, settings.kick_limits
        signers, config = settings.signers, settings.config
        assert limits is not None
        assert kick_limits is not None
        assert signers is not None
        assert config is not None
        return {
            "head": (0, 0, 0) if head is None else (head.round, head.as_of, head.time),
            "previous root": state.previous_root,
            "roots": {
                number: get_root(state, number) for number in _list_rounds(state.head_round)
            },
            "configuration": (config.count, config.digest),
            "rules": list_changes_in_force(settings.rules_changes)[-1].rules_hash,
            "signers": (list(signers.signers), signers.quorum),
            "round signers": set() if head is None else set(_round_signers(state)),
            "limits": astuple(limits.limits),
            "kick limits": astuple(kick_limits.limits),
            **{node: self._describe_kick(node) for node in self._nodes},
        }

    def _describe_kick(self, node: Address) -> object:
        kick = self.state.kicks.get(node) or NodeKick(node)
        accusation, expulsion = kick.accusation, kick.expulsion
        slot = (
            CONTRACT_STATES.get(kick.state, 0),
            0 if accusation is None else accusation.due_since,
            0 if accusation is None else accusation.ready_at,
            0 if expulsion is None else expulsion.expires_at,
            kick.spared_until,
            kick.allowed,
            kick.last_round,
        )
        return [slot, kick.is_expelled(self._chain.time), kick.is_accused]


def _list_rounds(head_round: int) -> range:
    """Return the kept rounds, and the round before and after them."""
    return range(max(head_round - KEPT, 0), head_round + 2)


def _round_signers(state: ContractState) -> tuple[Address, ...]:
    assert state.head is not None
    signers = state.settings.find_round_signers(state.head)
    assert signers is not None
    return signers


def _format_hash(content: bytes) -> Hash:
    return Hash("0x" + content.hex())
