"""The rounds, kickouts and settings of the oracle contract, derived from its events.

The contract is contracts/roots/QoSRoots.sol. The inputs of transactions are not read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractEvent,
    KickAccused,
    KickAllowed,
    KickCancelled,
    KickEvent,
    KickExecuted,
    KickLimitsSet,
    KickRefused,
    LimitsSet,
    NodeExpelled,
    NodeReadmitted,
    Objected,
    PausedUntil,
    RoundAccepted,
    RoundsStruck,
    SettingEvent,
    SignersSet,
)
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.node_kicks import NEVER_EXPIRES, NodeKick
from oracle.domain.reports.rules_changes import RulesChanges, apply_rules_event
from oracle.errors import FatalError


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """The newest settings of the contract.

    A setting is None if no block read so far has set it. `signers_by_config` has the signers of
    each configuration, by the digest of the configuration. A rules change creates a new
    configuration with the same signers.
    """

    limits: LimitsSet | None = None
    kick_limits: KickLimitsSet | None = None
    signers: SignersSet | None = None
    config: ConfigSet | None = None
    pause: PausedUntil | None = None
    signers_by_config: Mapping[Hash, tuple[Address, ...]] = field(default_factory=dict)
    rules_changes: RulesChanges = ()

    def apply_event(self, event: SettingEvent) -> "ContractSettings":
        """Return the settings after an event.

        The result is the same object if the event changes nothing. Timelock operations that change
        no rules are ignored.
        """
        match event:
            case LimitsSet():
                return replace(self, limits=event)
            case KickLimitsSet():
                return replace(self, kick_limits=event)
            case SignersSet():
                return replace(self, signers=event)
            case ConfigSet():
                signers_by_config = dict(self.signers_by_config)
                if self.signers is not None:
                    signers_by_config[event.digest] = self.signers.signers
                return replace(self, config=event, signers_by_config=signers_by_config)
            case PausedUntil():
                return replace(self, pause=event)
            case _:
                changes = apply_rules_event(self.rules_changes, event)
                is_unchanged = changes is self.rules_changes
                return self if is_unchanged else replace(self, rules_changes=changes)

    def find_round_signers(self, accepted_round: RoundAccepted) -> tuple[Address, ...] | None:
        """Return the signers of a round, or None if its configuration is unknown.

        A configuration is unknown if no block read so far has set it.

        Raises:
            ValueError: the round's bitmap has a bit without a signer in its configuration.
        """
        signers = self.signers_by_config.get(accepted_round.config)
        if signers is None:
            return None
        if accepted_round.signer_bitmap >> len(signers):
            raise ValueError(
                f"round {accepted_round.round}: the bitmap {accepted_round.signer_bitmap:#x} has "
                f"a bit beyond the {len(signers)} signers of its configuration"
            )
        return tuple(
            signer
            for index, signer in enumerate(signers)
            if accepted_round.signer_bitmap >> index & 1
        )


@dataclass(frozen=True, slots=True)
class ContractPreImages:
    """The kickouts that a block changed, as they were before the block.

    The value is None for a node that had no kickout. Rounds, strikes, settings and objections are
    only appended, so an undo deletes those above its block.
    """

    block: int
    kicks: dict[Address, NodeKick | None]


@dataclass(slots=True)
class ContractChanges:
    """The changes since the last `drain_changes`, which have to be stored."""

    kicks: dict[Address, NodeKick] = field(default_factory=dict)
    accepted: list[RoundAccepted] = field(default_factory=list)
    strikes: list[RoundsStruck] = field(default_factory=list)
    settings: list[SettingEvent] = field(default_factory=list)
    objections: list[Objected] = field(default_factory=list)
    pre_images: list[ContractPreImages] = field(default_factory=list)


class ContractState:
    """The state of the oracle contract up to the last applied event, kept in memory.

    `head` is the last accepted round, or None. If the round was struck (withdrawn), its root
    proves nothing; see `get_root`.
    """

    def __init__(
        self,
        kept_rounds: int,
        *,
        accepted_rounds: Iterable[RoundAccepted] = (),
        strikes: Iterable[RoundsStruck] = (),
        kicks: Iterable[NodeKick] = (),
        settings: ContractSettings | None = None,
    ) -> None:
        """Create the state of a contract that keeps the roots of its last `kept_rounds` rounds.

        In the contract, this number is the constant KEPT. `accepted_rounds` has at least the last
        `kept_rounds` rounds, oldest first, and `strikes` has every strike of these rounds.
        """
        self.kept_rounds = kept_rounds
        self.head: RoundAccepted | None = None
        self.kicks = {kick.node: kick for kick in kicks}
        self.settings = settings or ContractSettings()
        # Roots by round, like the contract's ring; a struck round has root 0.
        self._roots: dict[int, Hash] = {}
        self._changes = ContractChanges()
        self._pre_images: ContractPreImages | None = None
        for accepted_round in accepted_rounds:
            self._record_accepted_root(accepted_round)
        for strike in strikes:
            self._strike_roots(strike)

    def fold_block(self, number: int, events: list[ContractEvent], *, journal: bool) -> None:
        """Apply the events of one block, in order.

        With `journal`, the old kickouts are kept.

        Raises:
            FatalError: a round does not follow the last round, so a log is missing.
        """
        self._pre_images = ContractPreImages(number, {}) if journal else None
        for event in events:
            self._apply_event(event)
        if self._pre_images is not None and self._pre_images.kicks:
            self._changes.pre_images.append(self._pre_images)
        self._pre_images = None

    def drain_changes(self) -> ContractChanges:
        """Return the changes since the last call, and clear them."""
        changes = self._changes
        self._changes = ContractChanges()
        return changes

    @property
    def head_round(self) -> int:
        """The number of the last accepted round, or 0 if there is none."""
        return 0 if self.head is None else self.head.round

    @property
    def previous_root(self) -> Hash:
        """The root to which the next report links, as its `prev`.

        This root is zero at first and after a strike.
        """
        return self._roots.get(self.head_round, ZERO_HASH)

    def _apply_event(self, event: ContractEvent) -> None:
        match event:
            case RoundAccepted():
                self._accept_round(event)
            case RoundsStruck():
                self._strike_rounds(event)
            case Objected():
                self._changes.objections.append(event)
            case (
                KickAccused()
                | KickCancelled()
                | KickAllowed()
                | KickExecuted()
                | KickRefused()
                | NodeExpelled()
                | NodeReadmitted()
            ):
                self._set_kick(self._apply_kick_event(event))
            case _:
                self._apply_setting_event(event)

    def _apply_setting_event(self, event: SettingEvent) -> None:
        """Apply a settings event.

        Timelock operations that change no rules are not recorded.
        """
        settings = self.settings.apply_event(event)
        if settings is not self.settings:
            self.settings = settings
            self._changes.settings.append(event)

    def _apply_kick_event(self, event: KickEvent) -> NodeKick:
        """Apply an event to the node's kickout, and return the changed kickout."""
        kick = self.kicks.get(event.node) or NodeKick(event.node)
        match event:
            case KickAccused():
                kick = kick.accuse(event)
            case KickCancelled():
                kick = kick.cancel(event)
            case KickAllowed():
                kick = kick.allow(event.due_since)
            case KickExecuted():
                kick_limits_event = self.settings.kick_limits
                cooldown = (
                    NEVER_EXPIRES
                    if kick_limits_event is None
                    else kick_limits_event.limits.kick_cooldown
                )
                kick = kick.execute(event, head_round=self.head_round, cooldown=cooldown)
            case KickRefused():
                kick = kick.refuse(event, self.head_round)
            case NodeExpelled():
                kick = kick.expel(event.at)
            case NodeReadmitted():
                kick = kick.readmit(event.time)
        return kick

    def _accept_round(self, event: RoundAccepted) -> None:
        if self.head is not None and event.round != self.head.round + 1:
            raise _build_round_gap_error(f"round {event.round}", event.at.block, self.head.round)
        self._record_accepted_root(event)
        self._changes.accepted.append(event)

    def _record_accepted_root(self, event: RoundAccepted) -> None:
        self.head = event
        self._roots[event.round] = event.root
        self._roots.pop(event.round - self.kept_rounds, None)

    def _strike_rounds(self, event: RoundsStruck) -> None:
        if self.head is not None and event.last != self.head.round:
            strike_text = f"the strike of rounds {event.first} to {event.last}"
            raise _build_round_gap_error(strike_text, event.at.block, self.head.round)
        self._strike_roots(event)
        self._changes.strikes.append(event)

    def _strike_roots(self, event: RoundsStruck) -> None:
        for number in range(event.first, event.last + 1):
            if number in self._roots:
                self._roots[number] = ZERO_HASH

    def _set_kick(self, kick: NodeKick) -> None:
        if self._pre_images is not None:
            self._pre_images.kicks.setdefault(kick.node, self.kicks.get(kick.node))
        self.kicks[kick.node] = self._changes.kicks[kick.node] = kick


def _build_round_gap_error(subject: str, block: int, head_round: int) -> FatalError:
    return FatalError(
        f"{subject} in block {block} does not follow round {head_round}; a log is missing "
        "(`qos-oracle resync verify --repair`)"
    )
