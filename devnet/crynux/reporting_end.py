"""Deploys the oracle contract on a third-party network, with keys and settings for reports."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from devnet.crynux.crynux_network import CrynuxNetwork
from devnet.crynux.kickout_end import deploy_adapter
from devnet.demo.demo_system import read_report_settings
from devnet.demo.show import DemoKey, create_keys
from devnet.demo.stage import ETHER, LIMITS, ChainClock
from oracle.bindings.deployment import (
    DEFAULT_KICK_LIMITS,
    NO_FLOORS,
    NO_KICK_FLOORS,
    OracleSetup,
    compute_contract_address,
)
from oracle.bindings.kick_targets import find_default_kick_target
from oracle.bindings.qos_roots import encode_retry_kick_call
from oracle.chain.profiles.profile_loader import load_profile
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import compute_kickout_line_steps
from oracle.domain.reports.report import hash_rules_and_settings
from oracle.domain.scoring.rules import Rules
from oracle.errors import FatalError

# Gas limit that is enough to deploy the oracle contract, and to execute a kickout that forwards
# the maximum gas to the adapter.
_GAS = hex(12_000_000)
_ROLES = ("signer", "transmitter")


@dataclass(frozen=True, slots=True)
class ReportingSetup:
    """The oracle contract, the network's adapter, and the daemon's keys."""

    oracle: Address
    adapter: Address
    keys: Mapping[str, DemoKey]

    def build_settings(self, folder: Path) -> dict[str, dict[str, object]]:
        """Build the additional settings of a daemon that publishes reports."""
        return {
            "oracle": {"address": self.oracle, "evidence_folder": folder / "evidence"},
            "keys": {
                f"{role}_{key_field}": getattr(self.keys[role], key_field)
                for role in _ROLES
                for key_field in ("keystore", "password_file")
            },
        }

    def build_retry_transaction(self, sender: Address, node: Address) -> dict[str, str]:
        """Build a transaction that retries a kickout.

        Any account may send it.
        """
        calldata = encode_retry_kick_call(node)
        return {"from": sender, "to": self.oracle, "data": calldata, "gas": _GAS}


def deploy_oracle_and_adapter(
    network: CrynuxNetwork, clock: ChainClock, rules: Rules, folder: Path
) -> ReportingSetup:
    """Deploy an oracle contract and the profile's adapter, linked to each other.

    Raises:
        FatalError: the profile has no adapter.
    """
    keys = create_keys(folder)
    owner = network.owner
    nonce = int(network.chain.make_request("eth_getTransactionCount", owner, "latest"), 16)
    # The owner's next transaction deploys the adapter. Its address is already known, because it
    # depends only on the owner and the nonce.
    setup = _build_oracle_setup(
        network, rules, keys["signer"].address, compute_contract_address(owner, nonce + 1)
    )
    (receipt,) = network.chain.mine_and_check_receipts(
        clock.advance(), [{"from": owner, "data": setup.creation_code, "gas": _GAS}]
    )
    oracle_address = Address(str(receipt["contractAddress"]).lower())
    adapter = deploy_adapter(network, clock, oracle_address)
    if adapter != setup.target:
        raise FatalError(
            f"the adapter was deployed at {adapter} instead of {setup.target}; this is a bug"
        )
    transmitter_address = keys["transmitter"].address
    funding_transaction = {
        "from": owner,
        "to": transmitter_address,
        "value": hex(10 * ETHER),
        "gas": hex(21_000),
    }
    network.mine_transactions(clock, [funding_transaction])
    return ReportingSetup(oracle_address, adapter, keys)


def _build_oracle_setup(
    network: CrynuxNetwork, rules: Rules, signer: Address, target: Address
) -> OracleSetup:
    """Build an oracle setup with one signer and no timelock.

    At most three kickouts in a row are allowed. One more kickout is allowed every minute.
    """
    kick_target = find_default_kick_target(network.profile)
    if kick_target is None:
        raise FatalError(f"{network.profile}: there is no kickout adapter for this profile")
    kick_threshold = compute_kickout_line_steps(rules)
    settings = replace(read_report_settings(), kick_below=kick_threshold)
    return OracleSetup(
        admin=network.owner,
        vetoer=network.owner,
        target=target,
        signers=(signer,),
        rules_hash=hash_rules_and_settings(
            rules, load_profile(network.profile, None).identity, settings
        ),
        limits=replace(LIMITS, kick_below=kick_threshold),
        floors=NO_FLOORS,
        kick_limits=replace(DEFAULT_KICK_LIMITS, kick_gas=kick_target.kick_gas, bucket_frame=60),
        kick_floors=NO_KICK_FLOORS,
    )
