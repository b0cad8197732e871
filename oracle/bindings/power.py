"""Finds roles and limits that let a single key do harm, for `contract check`.

The daemon still publishes to a contract with such roles or limits, but an operator who serves
others should not use it (docs/explanation/kickouts.md#power).
"""

from collections.abc import Collection, Iterator
from dataclasses import fields

from oracle.bindings import qos_words
from oracle.bindings.codec import compute_code_hash
from oracle.bindings.deployment import (
    DEFAULT_FLOORS,
    WordsSetup,
    compute_min_score_age_limit,
)
from oracle.bindings.inspection import ContractMismatch
from oracle.bindings.qos_roots import RootsConfiguration
from oracle.bindings.qos_words import WordsConfiguration
from oracle.bindings.timelock import (
    ADMIN_NAME,
    CANCELLER_NAME,
    EXECUTOR_NAME,
    MAX_DELAY,
    MIN_DELAY,
    PROPOSER_NAME,
    TimelockRoles,
    fetch_account_code,
    fetch_timelock_delay,
    load_timelock_code,
)
from oracle.domain.events.oracle_events import ContractKickLimits, RootsLimits
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.report import ReportSettings
from oracle.rpc.fanout import PoolView

# Limits that bound the damage a stolen quorum of keys can do.
_MIN_BOUND_LIMITS = ("veto_delay", "kick_rounds")
_MAX_BOUND_LIMITS = ("kick_below",)
# Four times the defaults of `contract deploy`. Within these bounds, a stolen quorum can kick
# MAX_BUCKET nodes at once and MAX_DAILY_KICKS per day.
MAX_BUCKET, MAX_DAILY_KICKS = 12, 96
_DAY = 86_400
# Maximum number of seconds by which the pauser's tightest limits may delay a kickout.
MAX_KICK_DELAY = 7 * _DAY
# A root is used only after this many newer rounds, so that a wrong root can still be struck.
MIN_LAG_ROUNDS = 2


def find_contract_weaknesses(
    pool_view: PoolView, configuration: RootsConfiguration, settings: ReportSettings
) -> list[ContractMismatch]:
    """Return the contract's roles and limits that give too much power to a single key.

    Raises:
        TransientError: no endpoint responds.
    """
    return [
        *_find_admin_weaknesses(pool_view, configuration),
        *_find_role_weaknesses(configuration),
        *_find_vetoer_weaknesses(configuration),
        *_find_limit_weaknesses(configuration),
        *_find_score_age_weaknesses(configuration, settings),
        *_find_tightest_limit_weaknesses(configuration.tightest, settings),
    ]


def find_words_contract_mismatches(
    words_configuration: WordsConfiguration,
    oracle: Address,
    oracle_configuration: RootsConfiguration,
) -> list[ContractMismatch]:
    """Return all mismatches that make a QoSWords contract unfit for consumers.

    These are the consumers of the oracle.
    """
    default_setup = WordsSetup()
    mismatches = [
        ContractMismatch(f"{subject} of the words", str(expected_value), str(actual))
        for subject, expected_value, actual in (
            (
                "code hash",
                compute_code_hash(qos_words.CONTRACT),
                compute_code_hash(qos_words.CONTRACT, words_configuration.code),
            ),
            ("oracle", oracle, words_configuration.oracle),
            ("LAG", oracle_configuration.lag_rounds, words_configuration.lag_rounds),
        )
        if expected_value != actual
    ]
    if words_configuration.fall_share > default_setup.fall_share:
        fall_share_text = str(words_configuration.fall_share)
        mismatches.append(
            ContractMismatch(
                "FALL_SHARE of the words", f"at most {default_setup.fall_share}", fall_share_text
            )
        )
    return mismatches


def find_timelock_weaknesses(
    roles: TimelockRoles,
    oracle: Address,
    configuration: RootsConfiguration,
    expected_proposers: Collection[Address],
) -> list[ContractMismatch]:
    """Return the weaknesses of the timelock that administers an oracle.

    The vetoer cancels operations through the oracle, so the oracle must be a canceller. A vetoer
    that is a canceller itself could cancel operations forever, even after its replacement.
    Proposers, vetoer and pauser must be different accounts, because two of these parties can
    replace the third. If `expected_proposers` is empty, any single proposer is accepted.
    """
    proposers = expected_proposers or roles.get_accounts_with_role(PROPOSER_NAME)
    allowed_by_role = {
        PROPOSER_NAME: (proposers, "an address in --proposers"),
        # Anyone may execute a call once its delay has passed.
        EXECUTOR_NAME: ([*proposers, ZERO_ADDRESS], "anyone, or a proposer"),
        CANCELLER_NAME: ([*proposers, oracle], "a proposer or the oracle"),
        ADMIN_NAME: ([roles.timelock], "only the timelock itself"),
    }
    mismatches = [
        ContractMismatch(f"{role} of the timelock", description, account)
        for role, (allowed, description) in allowed_by_role.items()
        for account in roles.get_accounts_with_role(role)
        if account not in allowed
    ]
    if len(proposers) > 1 and not expected_proposers:
        proposer_list = ", ".join(proposers)
        mismatches.append(
            ContractMismatch(
                "proposers of the timelock", "a single one, or --proposers", proposer_list
            )
        )
    if not roles.is_complete:
        missing_since = f"no constructor logs from block {roles.start_block} on (--since)"
        mismatches.append(
            ContractMismatch("roles of the timelock", "all its RoleGranted logs", missing_since)
        )
    if oracle not in roles.get_accounts_with_role(CANCELLER_NAME):
        cancellers = ", ".join(roles.get_accounts_with_role(CANCELLER_NAME)) or "nobody"
        mismatches.append(
            ContractMismatch(
                f"{CANCELLER_NAME} of the timelock",
                f"also the oracle {oracle}, through which the vetoer cancels",
                cancellers,
            )
        )
    mismatches += [
        ContractMismatch(role, "not a proposer of the timelock", holder)
        for role, holder in (("pauser", configuration.pauser), ("vetoer", configuration.vetoer))
        if holder in roles.get_accounts_with_role(PROPOSER_NAME)
    ]
    return mismatches


def _find_admin_weaknesses(
    pool_view: PoolView, configuration: RootsConfiguration
) -> Iterator[ContractMismatch]:
    if configuration.pending_admin != ZERO_ADDRESS:
        yield ContractMismatch("pending admin", "none", configuration.pending_admin)
    expected_text = "a timelock"
    code = fetch_account_code(pool_view, configuration.admin)
    if code == "0x":
        yield ContractMismatch("admin", expected_text, f"{configuration.admin}, a single key")
        return
    delay = fetch_timelock_delay(pool_view, configuration.admin)
    if delay is None:
        yield ContractMismatch(
            "admin", expected_text, f"{configuration.admin}, a contract without a delay"
        )
    elif code != load_timelock_code():
        # Only the shipped code is known to enforce the delay that the contract returns.
        shipped_contract_text = "the shipped TimelockController's"
        yield ContractMismatch(
            "code of the timelock", shipped_contract_text, f"other code at {configuration.admin}"
        )
    elif not MIN_DELAY <= delay < MAX_DELAY:
        expected_range = f"from {MIN_DELAY} s to less than {MAX_DELAY} s, the longest pause"
        yield ContractMismatch("delay of the timelock", expected_range, f"{delay} s")


def _find_role_weaknesses(configuration: RootsConfiguration) -> Iterator[ContractMismatch]:
    if len(configuration.signers) < 2:  # noqa: PLR2004  a single signer is no quorum
        yield ContractMismatch("signers", "at least 2", str(len(configuration.signers)))
    elif configuration.quorum < 2:  # noqa: PLR2004
        yield ContractMismatch("quorum", "at least 2", str(configuration.quorum))
    for role, holder in (("pauser", configuration.pauser), ("vetoer", configuration.vetoer)):
        if holder == ZERO_ADDRESS:
            yield ContractMismatch(role, "an account that can stop a wrong action", "none")
        elif holder == configuration.admin:
            yield ContractMismatch(role, "not the admin, whose calls are delayed", holder)


def _find_vetoer_weaknesses(configuration: RootsConfiguration) -> Iterator[ContractMismatch]:
    pending_vetoer = configuration.pending_vetoer
    if pending_vetoer != ZERO_ADDRESS:
        offer_text = (
            f"{pending_vetoer}, from {configuration.vetoer_offered_from} (unix seconds) on"
        )
        yield ContractMismatch("pending vetoer", "none", offer_text)
    vetoer = configuration.vetoer
    if vetoer == configuration.pauser and vetoer != ZERO_ADDRESS:
        yield ContractMismatch(
            "vetoer", "not the pauser, who can withdraw the offer of its role", vetoer
        )


def _find_limit_weaknesses(configuration: RootsConfiguration) -> Iterator[ContractMismatch]:
    yield from _find_kick_bucket_weaknesses("kick_limits", configuration.kick_limits)
    yield from _find_kick_bucket_weaknesses("kick_floors", configuration.kick_floors)
    yield from _find_unbounded_limits(
        "limits", configuration.contract_status.limits, DEFAULT_FLOORS
    )
    yield from _find_unbounded_limits("floors", configuration.floors, DEFAULT_FLOORS)


def _find_kick_bucket_weaknesses(
    name: str, kick_limits: ContractKickLimits
) -> Iterator[ContractMismatch]:
    if kick_limits.bucket_most > MAX_BUCKET:
        bucket_size = str(kick_limits.bucket_most)
        yield ContractMismatch(f"{name}.bucket_most", f"at most {MAX_BUCKET}", bucket_size)
    daily_kicks = kick_limits.bucket_per_frame * _DAY / max(kick_limits.bucket_frame, 1)
    if daily_kicks > MAX_DAILY_KICKS:
        expected_range = f"at most {MAX_DAILY_KICKS} kickouts a day"
        yield ContractMismatch(f"{name}.bucket_per_frame", expected_range, f"{daily_kicks:g}")


def _find_unbounded_limits(
    name: str, limits: RootsLimits, bounds: RootsLimits
) -> Iterator[ContractMismatch]:
    """Yield the limits that exceed their bound.

    A stolen quorum could then do more harm.
    """
    for limit_field in fields(bounds):
        bound = getattr(bounds, limit_field.name)
        limit_value = getattr(limits, limit_field.name)
        if limit_field.name in _MIN_BOUND_LIMITS and limit_value < bound:
            yield ContractMismatch(
                f"{name}.{limit_field.name}", f"at least {bound}", str(limit_value)
            )
        if limit_field.name in _MAX_BOUND_LIMITS and limit_value > bound:
            yield ContractMismatch(
                f"{name}.{limit_field.name}", f"at most {bound}", str(limit_value)
            )


def _find_score_age_weaknesses(
    configuration: RootsConfiguration, settings: ReportSettings
) -> Iterator[ContractMismatch]:
    """Yield the settings that let scores expire or roots be discarded too early."""
    lag_rounds, kept_rounds = configuration.lag_rounds, configuration.kept_rounds
    if lag_rounds < MIN_LAG_ROUNDS:
        yield ContractMismatch("LAG", f"at least {MIN_LAG_ROUNDS} rounds", str(lag_rounds))
    max_age, period = configuration.contract_status.limits.max_age_seconds, settings.period_seconds
    min_age = compute_min_score_age_limit(settings, lag_rounds)
    for name, limits in (
        ("limits", configuration.contract_status.limits),
        ("tightest", configuration.tightest),
    ):
        if limits.max_age_seconds < min_age:
            expected_age = (
                f"at least {min_age} s, the longer of oracle.heartbeat_seconds and LAG + 1 "
                f"({lag_rounds + 1}) periods"
            )
            yield ContractMismatch(
                f"{name}.max_age_seconds", expected_age, f"{limits.max_age_seconds} s"
            )
    if kept_rounds * period < max_age:
        expected_rounds = -(-max_age // period)
        expected_age = f"at least {expected_rounds}, the rounds in limits.max_age_seconds"
        yield ContractMismatch("KEPT", expected_age, str(kept_rounds))


def _find_tightest_limit_weaknesses(
    tightest: RootsLimits, settings: ReportSettings
) -> Iterator[ContractMismatch]:
    """Yield the limits that let the pauser alone stop the rounds or all kickouts."""
    period = settings.period_seconds
    if tightest.min_interval > period:
        yield ContractMismatch(
            "tightest.min_interval",
            f"at most {period} s, the period",
            f"{tightest.min_interval} s",
        )
    for name, seconds in (
        ("veto_delay", tightest.veto_delay),
        ("kick_rounds", tightest.kick_rounds * period),
    ):
        if seconds > MAX_KICK_DELAY:
            yield ContractMismatch(
                f"tightest.{name}", f"at most {MAX_KICK_DELAY} s", f"{seconds} s"
            )
    if tightest.kick_below == 0:
        yield ContractMismatch("tightest.kick_below", "a QoS above 0", "0")
