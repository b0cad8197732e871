"""Plans `contract deploy`: the timelock, oracle, adapter and words contracts, in this order."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import typer

from oracle.bindings.contract_views import is_arbitrum_chain
from oracle.bindings.deployment import (
    DeploymentPlan,
    OracleSetup,
    WordsSetup,
    check_deployer_balance,
    compute_contract_address,
    deploy_contract,
    plan_dependent_deployment,
    plan_deployment,
)
from oracle.bindings.kick_targets import (
    KickTarget,
    RoleChange,
    build_adapter_creation_code,
    build_role_change,
)
from oracle.bindings.objections import build_objections_creation_code
from oracle.bindings.timelock import build_grant_canceller_call, build_timelock_creation_code
from oracle.cli.options import confirm_action, print_model
from oracle.cli.setup.contract_values import print_contract_result, print_values
from oracle.daemon.config.loader import Config
from oracle.daemon.senders import find_kick_target_address
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import FatalError, InputError
from oracle.queries.contract_models import AdapterPlan, DeploymentAnswer, TimelockPlan, WordsPlan
from oracle.signing.signer import Signer
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.receipts import fetch_transaction_count

# `contract deploy` waits this long for each receipt.
_RECEIPT_TIMEOUT_SECONDS = 120
_POLL_SECONDS = 1.0


def check_key_separation(setup: OracleSetup) -> None:
    """Check that no single key can do harm that a second key cannot stop.

    Raises:
        InputError: a single signature suffices, or there is no pauser or no vetoer.
    """
    faults = []
    if len(setup.signers) < 2 or setup.quorum < 2:  # noqa: PLR2004  one signer is no quorum
        faults.append("--signers and --quorum: at least two signatures are required")
    if ZERO_ADDRESS in {setup.pauser, setup.vetoer}:
        faults.append("--pauser and --vetoer: required, so that somebody can stop a wrong action")
    if faults:
        raise InputError("; ".join([*faults, "use --dev to allow it on a development chain"]))


@dataclass(frozen=True, slots=True)
class PlannedAdapter:
    """An adapter to deploy with its oracle, and the contract addresses that it needs."""

    target: KickTarget
    address_by_contract: Mapping[str, str]

    def build_creation_code(self, oracle: Address, owner: Address) -> str:
        """Build the adapter's creation code.

        Raises:
            InputError: a required address is missing.
        """
        with _add_option_hint():
            return build_adapter_creation_code(
                self.target, oracle, owner, self.address_by_contract
            )

    def build_role_change(self, adapter_address: Address) -> RoleChange:
        """Build the call that grants the adapter its role in the network contract.

        Raises:
            InputError: the address of the granting contract is missing.
        """
        with _add_option_hint():
            return build_role_change(self.target, adapter_address, self.address_by_contract)


@contextmanager
def _add_option_hint() -> Iterator[None]:
    """Add a hint about command-line options to the error about a missing address.

    The hint names the options that provide the address or make it unnecessary.
    """
    try:
        yield
    except InputError as error:
        raise InputError(
            f"{error}; use --contract NAME=0x…, or --adapter none (kickouts then only emit events)"
        ) from None


@dataclass(frozen=True, slots=True)
class _PredictedAddresses:
    """The predicted address of each deployed contract, or None if it is not deployed."""

    timelock: Address | None
    oracle: Address
    adapter: Address | None
    words_contract: Address | None
    objections: Address | None


@dataclass(frozen=True, slots=True)
class DeployPlan:
    """The contracts to deploy, and the account that pays.

    `setup.admin` owns the timelock, which becomes the admin of the oracle in its place. Without a
    timelock, `timelock_delay` (in seconds) is None, and `setup.admin` stays the admin. `replaced`
    is the oracle that the new oracle replaces.
    """

    config: Config
    publisher: SenderAccount
    payer: Signer
    setup: OracleSetup
    timelock_delay: int | None
    adapter: PlannedAdapter | None = None
    replaced: Address | None = None
    words_setup: WordsSetup | None = None
    with_objections: bool = False

    def run(self, *, yes: bool, dry_run: bool, as_json: bool) -> None:
        """Print the plan, then deploy the contracts after the user confirms.

        Raises:
            InputError: a contract rejects its arguments, or the account has too little balance.
            FatalError: a deployment reverted, or a contract has another address than predicted.
            TransientError: no endpoint responds, or a transaction is not mined yet.
        """
        addresses = self._predict_addresses()
        setup = self._complete_oracle_setup(addresses)
        simulated_deployment = self._simulate_deployments(setup, addresses)
        # List the steps before sending anything, because they need addresses that may be missing.
        steps = self._list_next_steps(addresses)
        if dry_run or not as_json:
            print_contract_result(simulated_deployment, as_json=as_json)
        if not confirm_action("send these transactions", yes=yes, dry_run=dry_run):
            typer.echo("dry run: nothing sent; use --yes to send", err=True)
            return
        gas_used = self._deploy_contracts(setup, addresses)
        if as_json:
            # A program that reads --json expects exactly one JSON document.
            print_model(
                simulated_deployment.model_copy(
                    update={"address": addresses.oracle, "gas_used": gas_used}
                )
            )
        else:
            deployed_values = {
                "timelock": addresses.timelock,
                "address": addresses.oracle,
                "gas_used": gas_used,
                "adapter": addresses.adapter,
                "words": addresses.words_contract,
                "objections": addresses.objections,
            }
            print_values(
                {name: value for name, value in deployed_values.items() if value is not None}
            )
        for line in steps:
            typer.echo(line, err=True)

    def _predict_addresses(self) -> _PredictedAddresses:
        sender_address = self.payer.address
        nonce = fetch_transaction_count(self.publisher.pool_view, sender_address, "pending")
        nonces = itertools.count(nonce)

        def predict_next_address(*, is_deployed: bool) -> Address | None:
            return compute_contract_address(sender_address, next(nonces)) if is_deployed else None

        return _PredictedAddresses(
            timelock=predict_next_address(is_deployed=self.timelock_delay is not None),
            oracle=compute_contract_address(sender_address, next(nonces)),
            adapter=predict_next_address(is_deployed=self.adapter is not None),
            words_contract=predict_next_address(is_deployed=self.words_setup is not None),
            objections=predict_next_address(is_deployed=self.with_objections),
        )

    def _complete_oracle_setup(self, addresses: _PredictedAddresses) -> OracleSetup:
        setup = replace(
            self.setup,
            admin=addresses.timelock or self.setup.admin,
            arbitrum=is_arbitrum_chain(self.publisher.pool_view),
        )
        if self.adapter is None or addresses.adapter is None:
            return setup
        kick_gas = self.adapter.target.kick_gas
        return replace(
            setup,
            target=addresses.adapter,
            kick_limits=replace(setup.kick_limits, kick_gas=kick_gas),
        )

    def _simulate_deployments(
        self, setup: OracleSetup, addresses: _PredictedAddresses
    ) -> DeploymentAnswer:
        deployment_by_name = {
            name: self._simulate_deployment(code)
            for name, code in self._build_creation_codes(setup, addresses).items()
        }
        words_plan = None
        if self.words_setup is not None and addresses.words_contract is not None:
            words_deployment = self._plan_words_deployment(self.words_setup, addresses.oracle)
            deployment_by_name["words"] = words_deployment
            words_plan = WordsPlan(
                address=addresses.words_contract,
                fall_share=self.words_setup.fall_share,
                big_fall=self.words_setup.big_fall,
                max_rounds=self.words_setup.max_rounds,
                gas_limit=words_deployment.gas_limit,
            )
        # Compare the balance with the total cost, so that the deployment does not stop halfway.
        check_deployer_balance(*deployment_by_name.values())
        oracle_deployment = deployment_by_name["oracle"]
        timelock = adapter = None
        if addresses.timelock is not None and self.timelock_delay is not None:
            timelock = TimelockPlan(
                address=addresses.timelock,
                owner=self.setup.admin,
                delay=self.timelock_delay,
                gas_limit=deployment_by_name["timelock"].gas_limit,
            )
        if self.adapter is not None and addresses.adapter is not None:
            adapter = AdapterPlan(
                name=self.adapter.target.name,
                address=addresses.adapter,
                owner=self.setup.admin,
                contracts={
                    name: self.adapter.address_by_contract[name]
                    for name in self.adapter.target.required_addresses
                },
                gas_limit=deployment_by_name["adapter"].gas_limit,
            )
        return DeploymentAnswer(
            contract="QoSRoots",
            code_hash=oracle_deployment.code_hash,
            arguments=setup,
            sender=oracle_deployment.sender,
            gas_limit=oracle_deployment.gas_limit,
            max_fee_per_gas_wei=oracle_deployment.fees.max_fee,
            max_cost_wei=sum(deployment.max_cost for deployment in deployment_by_name.values()),
            balance_wei=oracle_deployment.balance,
            timelock=timelock,
            adapter=adapter,
            words_contract=words_plan,
            objections=addresses.objections,
        )

    def _build_creation_codes(
        self, setup: OracleSetup, addresses: _PredictedAddresses
    ) -> dict[str, str]:
        """Build the creation codes by contract name, except for the words contract."""
        code_by_name = {}
        if self.timelock_delay is not None:
            code_by_name["timelock"] = build_timelock_creation_code(
                self.setup.admin, self.timelock_delay
            )
        code_by_name["oracle"] = setup.creation_code
        if self.adapter is not None:
            code_by_name["adapter"] = self.adapter.build_creation_code(
                addresses.oracle, self.setup.admin
            )
        if addresses.objections is not None:
            code_by_name["objections"] = build_objections_creation_code(addresses.oracle)
        return code_by_name

    def _deploy_contracts(self, setup: OracleSetup, addresses: _PredictedAddresses) -> int:
        """Deploy the planned contracts in order, and return the gas used by the oracle."""
        code_by_name = self._build_creation_codes(setup, addresses)
        if addresses.timelock is not None:
            self._send_deployment(code_by_name["timelock"], addresses.timelock)
        gas_used = self._send_deployment(code_by_name["oracle"], addresses.oracle)
        if addresses.adapter is not None:
            self._send_deployment(code_by_name["adapter"], addresses.adapter)
        if self.words_setup is not None and addresses.words_contract is not None:
            words_code = self.words_setup.build_creation_code(addresses.oracle)
            self._send_deployment(words_code, addresses.words_contract)
        if addresses.objections is not None:
            self._send_deployment(code_by_name["objections"], addresses.objections)
        return gas_used

    def _plan_words_deployment(self, words_setup: WordsSetup, oracle: Address) -> DeploymentPlan:
        """Plan the deployment of the words contract, whose constructor calls the oracle."""
        publisher = self.publisher
        deployment = plan_dependent_deployment(
            publisher.pool_view,
            words_setup.build_creation_code(oracle),
            self.payer.address,
            publisher.quote_fees(),
        )
        _check_deployment_cost(self.config, deployment)
        return deployment

    def _simulate_deployment(self, code: str) -> DeploymentPlan:
        publisher = self.publisher
        deployment = plan_deployment(
            publisher.pool_view, code, self.payer.address, publisher.quote_fees()
        )
        _check_deployment_cost(self.config, deployment)
        return deployment

    def _send_deployment(self, code: str, planned: Address) -> int:
        """Deploy one contract, check its predicted address, and return the gas used."""
        publisher, chain_id = self.publisher, self.config.chain.id
        address, receipt = deploy_contract(
            publisher.pool,
            self.payer,
            self._simulate_deployment(code),
            chain_id,
            _make_receipt_waiter(),
        )
        if address != planned:
            raise FatalError(
                f"the contract is at {address} instead of {planned}, the address that the other "
                "contracts use, because the paying account sent another transaction meanwhile; "
                "deploy again from an account that sends nothing else"
            )
        return receipt.gas_used

    def _list_next_steps(self, addresses: _PredictedAddresses) -> list[str]:
        steps = [f"next: {line}" for line in self._list_role_steps(addresses)]
        if addresses.timelock is not None and self.timelock_delay is not None:
            owner, delay = self.setup.admin, self.timelock_delay
            # The vetoer itself does not become a canceller. Otherwise, a stolen vetoer key could
            # cancel operations forever, even after the vetoer was replaced.
            grant_call = build_grant_canceller_call(addresses.timelock, addresses.oracle)
            steps.append(
                f"next, so that the vetoer can cancel scheduled calls: {owner} sends "
                f"{addresses.timelock} {grant_call.encode_schedule_call(delay)}, and anyone sends "
                f"{grant_call.encode_execute_call()} after {delay} s"
            )
        if self.replaced is not None:
            steps.append(
                f'next: set [oracle] address = "{addresses.oracle}" in place of {self.replaced}, '
                "and run `qos-oracle resync rebuild`"
            )
        return steps

    def _list_role_steps(self, addresses: _PredictedAddresses) -> list[str]:
        """Return the calls that make the network accept the new oracle, with their senders."""
        if self.adapter is None or addresses.adapter is None:
            if find_kick_target_address(self.config) is None:
                return []
            return [f"the network's admin calls setOracle({addresses.oracle})"]
        change = self.adapter.build_role_change(addresses.adapter)
        if self.replaced is not None and self.adapter.target.can_transfer_role:
            hand_back_step = (
                f"the owner of the previous adapter calls giveBack({addresses.adapter})"
            )
            return [
                f"{hand_back_step}; until then the network refuses kickouts, which are retried"
            ]
        return [f"{change.description}: {change.to} {change.calldata}"]


def _check_deployment_cost(config: Config, deployment: DeploymentPlan) -> None:
    max_cost_wei = config.limits.max_cost_per_transaction_wei
    if deployment.max_cost > max_cost_wei:
        raise InputError(
            f"the deployment may cost {deployment.max_cost} wei, above "
            f"limits.max_cost_per_transaction_wei {max_cost_wei}"
        )
    check_deployer_balance(deployment)


def _make_receipt_waiter() -> Callable[[], bool]:
    """Return a function that sleeps between polls, and returns False after the timeout."""
    deadline = time.monotonic() + _RECEIPT_TIMEOUT_SECONDS

    def wait() -> bool:
        time.sleep(_POLL_SECONDS)
        return time.monotonic() < deadline

    return wait
