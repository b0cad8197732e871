"""The section `[dispatch]`, its faults, and the settings built from it."""

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
from oracle.systems.crynux.crynux_policy import CrynuxPolicy, ModelSpread
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.crynux.selection_weight import CRYNUX_WEIGHTING, Weighting
from oracle.systems.registry import policy_named
from oracle.systems.rule_overrides import changes_of

Seconds = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
Kind = Literal["sd", "llm", "sd_ft"]
# The policies that weigh by stake and QoS, and have a minimum weight.
_FLOORED = frozenset({"crynux", "relay", "crynux-docs"})
_KINDS: tuple[Kind, ...] = ("sd", "llm", "sd_ft")


class DispatchSection(Section):
    # Start drawn tasks on chain; overridden by `run --dispatch` and `--no-dispatch`.
    enabled: bool = False
    # The block after which nodes are drawn; it must not be indexed yet.
    start_block: int | None = Field(default=None, ge=0)
    # The policy that weighs nodes: `crynux`, `relay`, `crynux-docs`; by Pocket's tickets:
    # `article`, `portal_api_head`; with groups of three: `legacy`, `legacy-equal`.
    policy: Literal[
        "crynux", "relay", "crynux-docs", "article", "portal_api_head", "legacy", "legacy-equal"
    ] = "crynux"
    # Parameters that override the policy's own, by name: `{ expected = "12.5" }`;
    # docs/explanation/pocket.md#parameters lists those of Pocket.
    change: Annotated[dict[str, str], BeforeValidator(changes_of)] = Field(default_factory=dict)
    # The minimum weight of a drawn node, as a fraction; left out: the policy's own.
    weight_floor: Decimal | None = Field(default=None, ge=0, le=4, allow_inf_nan=False)
    # Queued tasks per member; the least valuable tasks beyond this number are dropped.
    queue_alpha: Decimal | None = Field(default=None, gt=0, allow_inf_nan=False)
    # The fixed seconds of a task, whatever its size: `{ sd = 5, llm = 2, sd_ft = 60 }`.
    fixed_seconds: dict[Kind, Seconds] | None = None
    # The seconds of a task per unit of size; a task's value is its fee divided by its seconds.
    unit_seconds: dict[Kind, Seconds] | None = None
    # The dispatcher's maximum number of transactions in flight.
    max_in_flight: int = Field(default=64, ge=1, le=1000)
    # Requests to download a model, for all nodes together in 86,400 seconds; 0: none.
    downloads_per_day: int = Field(default=200, ge=0, le=100_000)
    # Requests to download a model for one node in 86,400 seconds.
    downloads_per_node_per_day: int = Field(default=4, ge=1, le=1000)
    # Folder with the hashes of results, one file per task, by which contests are settled within
    # their window. Left out: a member of either group, or the window's end, settles them.
    results_folder: Path | None = None


def faults_in_dispatch(dispatch: DispatchSection, chain_start: int, *, has_key: bool) -> list[str]:
    """Return the missing and the invalid settings of `[dispatch]`, which have no defaults.

    See docs/explanation/dispatch.md#settings-without-a-default.
    """
    faults = _faults_in_policy(dispatch)
    if dispatch.enabled and not has_key:
        faults.append("keys.dispatcher_keystore: is missing, and dispatch.enabled is on")
    if dispatch.start_block is None:
        if dispatch.enabled:
            faults.append("dispatch.start_block: is missing, and dispatch.enabled is on")
        return faults
    if dispatch.start_block < chain_start:
        faults.append(
            f"dispatch.start_block: {dispatch.start_block} is before chain.start_block, "
            f"{chain_start}"
        )
    return faults + _faults_in_numbers(dispatch)


def _faults_in_numbers(dispatch: DispatchSection) -> list[str]:
    faults = []
    if dispatch.weight_floor is not None and dispatch.policy not in _FLOORED:
        faults.append(f"dispatch.weight_floor: is no number of the policy {dispatch.policy}")
    if dispatch.queue_alpha is None:
        faults.append("dispatch.queue_alpha: is missing; tasks in the queue for each member")
    for name in ("fixed_seconds", "unit_seconds"):
        missing = [kind for kind in _KINDS if kind not in (getattr(dispatch, name) or {})]
        if missing:
            faults.append(f"dispatch.{name}: is missing for {', '.join(missing)}")
    return faults


def _faults_in_policy(dispatch: DispatchSection) -> list[str]:
    try:
        policy = policy_named(dispatch.policy, dispatch.change)
    except ValueError as error:
        return [f"dispatch.change: {error}"]
    if dispatch.weight_floor is not None and not isinstance(policy, CrynuxPolicy):
        return [f"dispatch.weight_floor: {policy.name} has tickets and no least weight"]
    return []


def dispatch_settings(told: DispatchSection, rules: Rules) -> DispatchSettings | None:
    """Return the settings of a section without faults, or None if no node is drawn."""
    if told.start_block is None or told.queue_alpha is None:
        return None
    policy = policy_named(told.policy, told.change)
    crynux = policy if isinstance(policy, CrynuxPolicy) else None
    own = CRYNUX_WEIGHTING if crynux is None else crynux.weighting
    return DispatchSettings(
        start_block=told.start_block,
        rules=rules,
        policy=told.policy,
        weighting=floored(own, told),
        pricing=Pricing(_exactly(told.fixed_seconds or {}), _exactly(told.unit_seconds or {})),
        alpha=Fraction(told.queue_alpha),
        max_in_flight=told.max_in_flight,
        change=told.change,
        # The other policies do not track which node has a model.
        spread=ModelSpread(per_day=0) if crynux is None else spread_of(told),
    )


def spread_of(told: DispatchSection) -> ModelSpread:
    """Return the limits of download requests."""
    return ModelSpread(
        per_day=told.downloads_per_day, per_node_per_day=told.downloads_per_node_per_day
    )


def floored(own: Weighting, told: DispatchSection) -> Weighting:
    """Return the weighting with the section's minimum weight, if there is one."""
    if told.weight_floor is None:
        return own
    return replace(own, weight_floor=int(told.weight_floor * UNIT))


def _exactly(seconds: Mapping[Kind, Decimal]) -> dict[TaskKind, Fraction]:
    return {TaskKind(kind): Fraction(number) for kind, number in seconds.items()}
