"""The oracle contract's settings, which its events announce, and the signers of a round."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from oracle.domain.events.oracle_events import (
    ConfigSet,
    KickLimitsSet,
    LimitsSet,
    RoundAccepted,
    SettingEvent,
    SignersSet,
)
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.rules_changes import RulesChanges, apply_rules_event


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """The newest settings of the contract; a setting is None if no block read so far set it.

    `signers_by_config` has the signers of each configuration, by the digest of the configuration.
    A rules change creates a new configuration with the same signers.
    """

    limits: LimitsSet | None = None
    kick_limits: KickLimitsSet | None = None
    signers: SignersSet | None = None
    config: ConfigSet | None = None
    signers_by_config: Mapping[Hash, tuple[Address, ...]] = field(default_factory=dict)
    rules_changes: RulesChanges = ()

    def apply_event(self, event: SettingEvent) -> "ContractSettings":
        """Return the settings after an event, or the same object if the event changes nothing.

        Timelock operations that change no rules are ignored.
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
            case _:
                changes = apply_rules_event(self.rules_changes, event)
                if changes is self.rules_changes:
                    return self
                return replace(self, rules_changes=changes)

    def find_round_signers(self, accepted: RoundAccepted) -> tuple[Address, ...] | None:
        """Return the signers of a round, or None if no block read so far set its configuration.

        Raises:
            ValueError: the round's bitmap has a bit without a signer in its configuration.
        """
        signers = self.signers_by_config.get(accepted.config)
        if signers is None:
            return None
        if accepted.signer_bitmap >> len(signers):
            raise ValueError(
                f"round {accepted.round}: the bitmap {accepted.signer_bitmap:#x} has a bit beyond "
                f"the {len(signers)} signers of its configuration"
            )
        return tuple(
            signer for index, signer in enumerate(signers) if accepted.signer_bitmap >> index & 1
        )
