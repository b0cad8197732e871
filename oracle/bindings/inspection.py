"""Compares the oracle contract with the configuration, for `contract check`."""

from dataclasses import dataclass

from oracle.bindings.codec import compute_code_hash
from oracle.bindings.qos_roots import CONTRACT, RootsConfiguration, RootsContract
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.domain.reports.report import ReportSettings
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.signing.typed_data import MAX_TTL_SECONDS


@dataclass(frozen=True, slots=True)
class ExpectedConfiguration:
    """The configuration that the contract must have.

    Keys that are None are not compared.
    """

    # The contract that kickouts must call, or None to skip the comparison. The zero address, with
    # which kickouts call no contract, is accepted too.
    target: Address | None
    rules_hash: Hash
    settings: ReportSettings
    signer: Address | None
    transmitter: Address | None
    # The minimum anchor window in blocks, or None if it is not compared.
    anchor_window: int | None = None
    # True if other reporters are configured, so that their signatures can be collected.
    has_peers: bool = True


@dataclass(frozen=True, slots=True)
class ContractMismatch:
    """A difference between contract and configuration that prevents publishing."""

    subject: str
    expected: str
    actual: str

    def format_line(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.actual}"


def inspect_roots_contract(
    pool_view: PoolView, address: Address, expected_configuration: ExpectedConfiguration
) -> tuple[RootsConfiguration, list[ContractMismatch]]:
    """Read the contract's configuration, and return it with its mismatches.

    Both come from the same endpoint. A match at one endpoint is enough. A mismatch counts only if
    all endpoints show it, because a single endpoint may lag behind the chain.

    Raises:
        TransientError: no endpoint shows a match, and at least one does not respond.
    """
    results: list[tuple[RootsConfiguration, list[ContractMismatch]]] = []
    errors: list[TransientError] = []
    for endpoint_view in pool_view.build_single_endpoint_views():
        try:
            configuration = RootsContract(endpoint_view, address).fetch_configuration()
        except TransientError as error:
            errors.append(error)
            continue
        results.append(
            (configuration, find_configuration_mismatches(configuration, expected_configuration))
        )
        if not results[-1][1]:
            return results[-1]
    if not errors:
        return results[0]
    first_mismatches = "; ".join(
        mismatch.format_line() for _, mismatches in results[:1] for mismatch in mismatches
    )
    raise TransientError(
        f"{errors[0]}{f'; another endpoint: {first_mismatches}' if first_mismatches else ''}"
    )


def find_configuration_mismatches(
    configuration: RootsConfiguration, expected_configuration: ExpectedConfiguration
) -> list[ContractMismatch]:
    """Return all mismatches that prevent this daemon from publishing."""
    comparisons = [
        (
            "code hash",
            compute_code_hash(CONTRACT),
            compute_code_hash(CONTRACT, configuration.code),
        ),
        ("rulesHash", expected_configuration.rules_hash, configuration.contract_status.rules_hash),
        (
            "limits.kickBelow",
            expected_configuration.settings.kick_below,
            configuration.contract_status.limits.kick_below,
        ),
        ("ON_ARBITRUM", configuration.is_arbitrum_chain, configuration.on_arbitrum),
    ]
    return [
        *(
            ContractMismatch(subject, str(expected_value), str(actual_value))
            for subject, expected_value, actual_value in comparisons
            if expected_value != actual_value
        ),
        *_find_target_mismatches(configuration, expected_configuration),
        *_find_key_mismatches(configuration, expected_configuration),
        *_find_limit_mismatches(configuration, expected_configuration),
    ]


def _find_target_mismatches(
    configuration: RootsConfiguration, expected_configuration: ExpectedConfiguration
) -> list[ContractMismatch]:
    target = expected_configuration.target
    if target is None or configuration.target in {target, ZERO_ADDRESS}:
        return []
    return [ContractMismatch("target", f"{target}, or none", configuration.target)]


def _find_key_mismatches(
    configuration: RootsConfiguration, expected_configuration: ExpectedConfiguration
) -> list[ContractMismatch]:
    mismatches = []
    if (
        expected_configuration.signer is not None
        and expected_configuration.signer not in configuration.signers
    ):
        signers_text = ", ".join(configuration.signers)
        mismatches.append(
            ContractMismatch(
                "signers", f"a list with {expected_configuration.signer}", signers_text
            )
        )
    if not 1 <= configuration.quorum <= len(configuration.signers):
        expected_range = f"1 to {len(configuration.signers)}, the number of signers"
        mismatches.append(ContractMismatch("quorum", expected_range, str(configuration.quorum)))
    own_signatures = 0 if expected_configuration.signer is None else 1
    if (
        expected_configuration.transmitter is not None
        and not expected_configuration.has_peers
        and configuration.quorum > own_signatures
    ):
        expected_range = (
            f"at most {own_signatures}, because [reporters] peers lists no other reporter"
        )
        mismatches.append(ContractMismatch("quorum", expected_range, str(configuration.quorum)))
    for role, holder in (("admin", configuration.admin), ("pauser", configuration.pauser)):
        own_keys = {expected_configuration.signer, expected_configuration.transmitter} - {None}
        if holder in own_keys and holder != ZERO_ADDRESS:
            mismatches.append(
                ContractMismatch(role, "an account whose key this daemon does not have", holder)
            )
    return mismatches


def _find_limit_mismatches(
    configuration: RootsConfiguration, expected_configuration: ExpectedConfiguration
) -> list[ContractMismatch]:
    limits, settings = configuration.contract_status.limits, expected_configuration.settings
    mismatches = []
    if (
        expected_configuration.anchor_window is not None
        and limits.anchor_window < expected_configuration.anchor_window
    ):
        expected_minimum = (
            f"at least {expected_configuration.anchor_window} blocks (oracle.anchor_window)"
        )
        mismatches.append(
            ContractMismatch("limits.anchorWindow", expected_minimum, str(limits.anchor_window))
        )
    if settings.ttl_seconds > MAX_TTL_SECONDS:
        expected_maximum = f"at most {MAX_TTL_SECONDS} s, the longest validity of a signature"
        mismatches.append(
            ContractMismatch(
                "oracle.report_ttl_seconds", expected_maximum, str(settings.ttl_seconds)
            )
        )
    if limits.min_interval > settings.period_seconds:
        expected_maximum = f"at most {settings.period_seconds} s, the period"
        mismatches.append(
            ContractMismatch("limits.minInterval", expected_maximum, f"{limits.min_interval} s")
        )
    return mismatches
