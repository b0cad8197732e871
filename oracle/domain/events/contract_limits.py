"""Limits of the oracle contract, as in its storage, events and calls.

The fields are in the order of the contract's structs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RootsLimits:
    """The fields of the contract's struct `Limits`; times are in seconds.

    The anchor window is in blocks, and QoS is in steps of 0.0001.
    """

    min_interval: int
    anchor_window: int
    max_age_seconds: int
    kick_below: int
    veto_delay: int
    kick_rounds: int
    min_open: int


@dataclass(frozen=True, slots=True)
class ContractKickLimits:
    """The fields of the contract's struct `KickLimits`; times are in seconds.

    `kick_cooldown` is the duration of expulsions; with `NEVER_EXPIRES`, expulsions have no end.
    """

    kick_gas: int
    kick_cooldown: int
    bucket_most: int
    bucket_per_frame: int
    bucket_frame: int
