"""The sections `[dispatch]` and `[probing]`, and the checks of their settings."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from oracle.daemon.config.sections import Section
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.events.network_events import TaskKind
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_WEIGHTING,
    CrynuxPolicy,
    ModelSpread,
    Weighting,
)
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.overrides import parse_change_table
from oracle.systems.registry import get_policy

Seconds = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
Kind = Literal["sd", "llm", "sd_ft"]
# These policies weight candidates by stake and QoS, and have a minimum weight.
_FLOORED_POLICIES = frozenset({"crynux", "relay", "crynux-docs"})
_KINDS: tuple[Kind, ...] = ("sd", "llm", "sd_ft")
# TaskNetwork's limits for the size of a task and for its timeout in seconds.
_MAX_SIZE = 2**32 - 1
_MAX_TIMEOUT = 86_400


class DispatchSection(Section):
    # Whether drawn tasks are started on chain; overridden by `run --dispatch` and `--no-dispatch`.
    enabled: bool = False
    # The block after which nodes are drawn; it must not be indexed yet.
    start_block: int | None = Field(default=None, ge=0)
    # The policy that gives nodes their weights: `crynux`, `relay` or `crynux-docs`; with Pocket's
    # tickets `article` or `portal_api_head`; with groups of three `legacy` or `legacy-equal`.
    policy: Literal[
        "crynux", "relay", "crynux-docs", "article", "portal_api_head", "legacy", "legacy-equal"
    ] = "crynux"
    # Parameters that override the policy's own, by name: `{ expected = "12.5" }`;
    # docs/explanation/pocket.md#parameters lists those of Pocket.
    change: Annotated[dict[str, str], BeforeValidator(parse_change_table)] = Field(
        default_factory=dict
    )
    # The minimum weight of a candidate, as a fraction; by default the policy's own minimum.
    weight_floor: Decimal | None = Field(default=None, ge=0, le=4, allow_inf_nan=False)
    # The maximum number of waiting tasks per member; the least valuable tasks beyond this number
    # are dropped.
    queue_alpha: Decimal | None = Field(default=None, gt=0, allow_inf_nan=False)
    # The fixed part of a task's estimated seconds, by kind: `{ sd = 5, llm = 2, sd_ft = 60 }`.
    fixed_seconds: dict[Kind, Seconds] | None = None
    # The estimated seconds of a task per unit of its size, by kind; a task's value is its fee
    # divided by its estimated seconds.
    unit_seconds: dict[Kind, Seconds] | None = None
    # The dispatcher's maximum number of transactions in flight.
    max_in_flight: int = Field(default=64, ge=1, le=1000)
    # The maximum number of model download requests for all nodes together in 86,400 seconds; 0
    # disables the requests.
    downloads_per_day: int = Field(default=200, ge=0, le=100_000)
    # The maximum number of model download requests for one node in 86,400 seconds.
    downloads_per_node_per_day: int = Field(default=4, ge=1, le=1000)
    # The folder with the hashes of results, one file per task, with which the daemon settles
    # contests within their window. Without it, a contest is settled by a member of either group,
    # or at the end of the window.
    results_folder: Path | None = None


def find_dispatch_faults(
    dispatch: DispatchSection, chain_start_block: int, *, has_key: bool
) -> list[str]:
    """Return a message for each missing or invalid setting of `[dispatch]`.

    Some settings are required because no default would fit; see
    docs/explanation/dispatch.md#settings-without-a-default.
    """
    faults = _find_policy_faults(dispatch)
    if dispatch.enabled and not has_key:
        faults.append("keys.dispatcher_keystore: missing; required if dispatch.enabled is on")
    if dispatch.start_block is None:
        if dispatch.enabled:
            faults.append("dispatch.start_block: missing; required if dispatch.enabled is on")
        return faults
    if dispatch.start_block < chain_start_block:
        faults.append(
            f"dispatch.start_block: {dispatch.start_block}; must be at least chain.start_block "
            f"({chain_start_block})"
        )
    return faults + _find_start_setting_faults(dispatch)


def _find_start_setting_faults(dispatch: DispatchSection) -> list[str]:
    faults = []
    if dispatch.weight_floor is not None and dispatch.policy not in _FLOORED_POLICIES:
        faults.append(
            f"dispatch.weight_floor: the policy {dispatch.policy} has no minimum weight; "
            "remove the setting"
        )
    if dispatch.queue_alpha is None:
        faults.append(
            "dispatch.queue_alpha: missing; expected the number of queued tasks per member"
        )
    for name in ("fixed_seconds", "unit_seconds"):
        missing_kinds = [kind for kind in _KINDS if kind not in (getattr(dispatch, name) or {})]
        if missing_kinds:
            faults.append(f"dispatch.{name}: no value for {', '.join(missing_kinds)}")
    return faults


def _find_policy_faults(dispatch: DispatchSection) -> list[str]:
    try:
        policy = get_policy(dispatch.policy, dispatch.change)
    except ValueError as error:
        return [f"dispatch.change: {error}"]
    if dispatch.weight_floor is not None and not isinstance(policy, CrynuxPolicy):
        return [
            f"dispatch.weight_floor: the policy {policy.name} has tickets, and no minimum weight"
        ]
    return []


def build_dispatch_settings(dispatch: DispatchSection, rules: Rules) -> DispatchSettings | None:
    """Return the dispatcher's settings, or None if no nodes are drawn.

    The section is valid.
    """
    if dispatch.start_block is None or dispatch.queue_alpha is None:
        return None
    policy = get_policy(dispatch.policy, dispatch.change)
    crynux_policy = policy if isinstance(policy, CrynuxPolicy) else None
    base_weighting = CRYNUX_WEIGHTING if crynux_policy is None else crynux_policy.weighting
    return DispatchSettings(
        start_block=dispatch.start_block,
        rules=rules,
        policy=dispatch.policy,
        weighting=apply_weight_floor(base_weighting, dispatch),
        pricing=Pricing(
            _convert_to_fractions(dispatch.fixed_seconds or {}),
            _convert_to_fractions(dispatch.unit_seconds or {}),
        ),
        alpha=Fraction(dispatch.queue_alpha),
        max_in_flight=dispatch.max_in_flight,
        change=dispatch.change,
        # Other policies do not track which node has which model, so they request no downloads.
        spread=ModelSpread(per_day=0) if crynux_policy is None else build_model_spread(dispatch),
    )


def build_model_spread(dispatch: DispatchSection) -> ModelSpread:
    """Build the limits on requests for model downloads."""
    return ModelSpread(
        per_day=dispatch.downloads_per_day, per_node_per_day=dispatch.downloads_per_node_per_day
    )


def apply_weight_floor(weighting: Weighting, dispatch: DispatchSection) -> Weighting:
    """Return the weighting with the section's minimum weight, if one is set."""
    if dispatch.weight_floor is None:
        return weighting
    return replace(weighting, weight_floor=int(dispatch.weight_floor * UNIT))


def _convert_to_fractions(seconds_by_kind: Mapping[Kind, Decimal]) -> dict[TaskKind, Fraction]:
    return {
        TaskKind(kind): Fraction(kind_seconds) for kind, kind_seconds in seconds_by_kind.items()
    }


class ProbingSection(Section):
    # Whether a system task is started for each member that had no task in the window. The
    # dispatcher pays for it from its balance in the network contract.
    enabled: bool = False
    # The length of a window, in seconds of block time.
    window_seconds: int = Field(default=86_400, ge=60)
    # The fee of a system task in wei, at least the contract's minimum.
    fee_wei: int | None = Field(default=None, ge=1, lt=2**96)
    # The maximum fees that the system tasks of one window lock up, in wei; refunds are not
    # deducted.
    max_fee_per_window_wei: int | None = Field(default=None, ge=1)
    # Whether two other nodes with the same GPU do the same work, so that the task gets a score.
    group: bool = True
    # The kind of system task: `sd`, `llm` or `sd_ft`.
    kind: Kind = "sd"
    # The models that a system task needs; a node that does not have all of them on disk gets no
    # system task.
    models: tuple[str, ...] = Field(default=(), max_length=64)
    # The size of a system task, in units of work.
    size: int = Field(default=1, ge=1, le=_MAX_SIZE)
    # The timeout of a system task, in seconds.
    timeout_seconds: int = Field(default=300, ge=1, le=_MAX_TIMEOUT)


def find_probing_faults(probing: ProbingSection, *, is_dispatching: bool) -> list[str]:
    """Return a message for each missing or invalid setting of `[probing]`.

    `is_dispatching` is whether the settings let this daemon start drawn tasks.
    """
    if not probing.enabled:
        return []
    faults = [
        f"probing.{name}: missing; required if probing.enabled is on"
        for name in ("fee_wei", "max_fee_per_window_wei")
        if getattr(probing, name) is None
    ]
    if not is_dispatching:
        faults.append("probing.enabled: requires dispatch.start_block and the dispatcher's key")
    if probing.timeout_seconds * 2 > probing.window_seconds:
        faults.append("probing.timeout_seconds: must be at most half of probing.window_seconds")
    return faults
