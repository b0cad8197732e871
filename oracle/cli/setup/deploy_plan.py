"""The plan of `contract deploy`: timelock, oracle and adapter, in the order of deployment."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import typer

from oracle.bindings.deployment import (
    Deployment,
    OracleSetup,
    check_funds,
    created_address,
    deploy as deploy_contract,
    plan_deployment,
)
from oracle.bindings.kick_targets import KickTarget, RoleChange, adapter_code, role_change
from oracle.bindings.timelock import granting_canceller, timelock_code
from oracle.cli.options import confirm_action, print_answer
from oracle.cli.setup.spoken_values import print_values, tell
from oracle.daemon.config.loader import Config
from oracle.daemon.senders import kick_target
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import FatalError, InputError
from oracle.queries.contract_models import AdapterPlan, DeploymentAnswer, TimelockPlan
from oracle.signing.signer import Signer
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.receipts import nonce_at

# Timeout for each receipt of `contract deploy`.
_PATIENCE_SECONDS = 120
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PowerHolders:
    """The roles of the contract; `owner` owns the timelock or, with `dev`, is the admin itself.

    `delay` is the delay of timelock calls in seconds.
    """

    owner: Address
    signers: tuple[Address, ...]
    quorum: int
    pauser: Address
    vetoer: Address
    delay: int
    dev: bool

    def check(self) -> None:
        """Raise InputError if a single key could do harm at once, with nobody able to stop it."""
        faults = []
        if len(self.signers) < 2 or self.quorum < 2:  # noqa: PLR2004  one signer is no quorum
            faults.append("--signers and --quorum: at least two have to sign")
        if ZERO_ADDRESS in {self.pauser, self.vetoer}:
            faults.append("--pauser and --vetoer: name who can stop what goes wrong")
        if faults and not self.dev:
            raise InputError("; ".join([*faults, "--dev allows it, on a chain of your own"]))


@dataclass(frozen=True, slots=True)
class PlannedAdapter:
    """An adapter deployed with its oracle; `address_by_contract` has its dependencies."""

    target: KickTarget
    given: Mapping[str, str]

    def code(self, oracle: Address, owner: Address) -> str:
        """Return the creation code. Raises InputError: a required address is missing."""
        with _way_out():
            return adapter_code(self.target, oracle, owner, self.given)

    def role_change(self, place: Address) -> RoleChange:
        """Return the call that grants the role to the adapter.

        Raises InputError: the address of the granting contract is missing.
        """
        with _way_out():
            return role_change(self.target, place, self.given)


@contextmanager
def _way_out() -> Iterator[None]:
    """Add to the error about a missing address the options that provide or avoid it."""
    try:
        yield
    except InputError as error:
        raise InputError(
            f"{error} (--contract NAME=0x…, or --adapter none: kickouts end in an event)"
        ) from None


@dataclass(frozen=True, slots=True)
class _Places:
    """The address of each contract after deployment, or None if it is not deployed."""

    timelock: Address | None
    oracle: Address
    adapter: Address | None


@dataclass(frozen=True, slots=True)
class DeployPlan:
    """The contracts to deploy and the payer; a deployed timelock becomes the oracle's admin.

    `replaced` is the oracle that the new one replaces.
    """

    config: Config
    publisher: SenderAccount
    payer: Signer
    people: PowerHolders
    setup: OracleSetup
    adapter: PlannedAdapter | None = None
    replaced: Address | None = None

    def run(self, *, yes: bool, dry_run: bool, as_json: bool) -> None:
        """Print the plan, then deploy the contracts after confirmation.

        Raises:
            InputError: a contract rejects its arguments, or the account has too little balance.
            FatalError: a deployment reverted, or a contract has another address than predicted.
            TransientError: no endpoint responds, or a transaction is not mined yet.
        """
        places = self._places()
        setup = self._setup_at(places)
        answer = self._planned(setup, places)
        # Before anything is sent, because the steps need addresses that may be missing.
        steps = self._next_steps(places)
        if dry_run or not as_json:
            tell(answer, as_json=as_json)
        if not confirm_action("sending this", yes=yes, dry_run=dry_run):
            typer.echo("dry run: nothing was sent; --yes sends it", err=True)
            return
        gas_used = self._deploy(setup, places)
        if as_json:
            # A program expects a single JSON document.
            print_answer(
                answer.model_copy(update={"address": places.oracle, "gas_used": gas_used})
            )
        else:
            landed = {
                "timelock": places.timelock,
                "address": places.oracle,
                "gas_used": gas_used,
                "adapter": places.adapter,
            }
            print_values({name: value for name, value in landed.items() if value is not None})
        for line in steps:
            typer.echo(line, err=True)

    def _places(self) -> _Places:
        sender = self.payer.address
        nonce = nonce_at(self.publisher.lines, sender, "pending")
        timelock = None if self.people.dev else created_address(sender, nonce)
        first = nonce if timelock is None else nonce + 1
        adapter = None if self.adapter is None else created_address(sender, first + 1)
        return _Places(timelock, created_address(sender, first), adapter)

    def _setup_at(self, places: _Places) -> OracleSetup:
        setup = replace(self.setup, admin=places.timelock or self.people.owner)
        if self.adapter is None or places.adapter is None:
            return setup
        kick_gas = self.adapter.target.kick_gas
        return replace(
            setup,
            target=places.adapter,
            kick_limits=replace(setup.kick_limits, kick_gas=kick_gas),
        )

    def _planned(self, setup: OracleSetup, places: _Places) -> DeploymentAnswer:
        tried = {name: self._tried(code) for name, code in self._codes(setup, places).items()}
        # The total is checked, so that the deployment does not stop halfway.
        check_funds(*tried.values())
        planned = tried["oracle"]
        timelock = adapter = None
        if places.timelock is not None:
            timelock = TimelockPlan(
                address=places.timelock,
                owner=self.people.owner,
                delay=self.people.delay,
                gas_limit=tried["timelock"].gas_limit,
            )
        if self.adapter is not None and places.adapter is not None:
            adapter = AdapterPlan(
                name=self.adapter.target.name,
                address=places.adapter,
                owner=self.people.owner,
                told={name: self.adapter.given[name] for name in self.adapter.target.needs},
                gas_limit=tried["adapter"].gas_limit,
            )
        return DeploymentAnswer(
            contract="QoSOracle",
            code_hash=planned.code_hash,
            arguments=setup,
            sender=planned.sender,
            gas_limit=planned.gas_limit,
            max_fee_per_gas_wei=planned.fees.max_fee,
            max_cost_wei=sum(deployment.cost for deployment in tried.values()),
            balance_wei=planned.balance,
            timelock=timelock,
            adapter=adapter,
        )

    def _codes(self, setup: OracleSetup, places: _Places) -> dict[str, str]:
        """Return the creation code of each contract, in order of deployment."""
        codes = {}
        if places.timelock is not None:
            codes["timelock"] = timelock_code(self.people.owner, self.people.delay)
        codes["oracle"] = setup.code
        if self.adapter is not None:
            codes["adapter"] = self.adapter.code(places.oracle, self.people.owner)
        return codes

    def _deploy(self, setup: OracleSetup, places: _Places) -> int:
        """Deploy the planned contracts in order; return the gas used by the oracle."""
        codes = self._codes(setup, places)
        if places.timelock is not None:
            self._send(codes["timelock"], places.timelock)
        gas_used = self._send(codes["oracle"], places.oracle)
        if places.adapter is not None:
            self._send(codes["adapter"], places.adapter)
        return gas_used

    def _tried(self, code: str) -> Deployment:
        publisher = self.publisher
        planned = plan_deployment(publisher.lines, code, self.payer.address, publisher.fees())
        _check_cost(self.config, planned)
        return planned

    def _send(self, code: str, place: Address) -> int:
        """Deploy one contract and check its predicted address; return the gas used."""
        publisher, chain_id = self.publisher, self.config.chain.id
        address, receipt = deploy_contract(
            publisher.pool, self.payer, self._tried(code), chain_id, _patience()
        )
        if address != place:
            raise FatalError(
                f"it stands at {address}, not at {place}, which the others are told: the paying "
                "account sent something else meanwhile; deploy again with an account that rests"
            )
        return receipt.gas_used

    def _next_steps(self, places: _Places) -> list[str]:
        steps = [f"next: {line}" for line in self._role_steps(places)]
        if places.timelock is not None:
            owner, delay = self.people.owner, self.people.delay
            grant = granting_canceller(places.timelock, self.people.vetoer)
            steps.append(
                f"next, so that the vetoer cancels what is scheduled: {owner} sends "
                f"{places.timelock} {grant.schedule(delay)}, and anyone {grant.execute()} "
                f"after {delay} s"
            )
        if self.replaced is not None:
            steps.append(
                f'next: [oracle] address = "{places.oracle}" in place of {self.replaced}, and '
                "`qos-oracle resync rebuild`"
            )
        return steps

    def _role_steps(self, places: _Places) -> list[str]:
        """Return the calls, with their senders, that make the network accept the new oracle."""
        if self.adapter is None or places.adapter is None:
            if kick_target(self.config) is None:
                return []
            return [f"the network's admin calls setOracle({places.oracle})"]
        change = self.adapter.role_change(places.adapter)
        if self.replaced is not None and self.adapter.target.gives_back:
            step = f"the owner of the adapter before calls giveBack({places.adapter})"
            return [f"{step}; until then the network refuses kickouts, which are retried"]
        return [f"{change.text}: {change.to} {change.calldata}"]


def _check_cost(config: Config, planned: Deployment) -> None:
    most = config.limits.max_cost_per_transaction_wei
    if planned.cost > most:
        raise InputError(
            f"it may cost {planned.cost} wei, above limits.max_cost_per_transaction_wei {most}"
        )
    check_funds(planned)


def _patience() -> Callable[[], bool]:
    """Return a function that sleeps between polls and returns False after the timeout."""
    end = time.monotonic() + _PATIENCE_SECONDS

    def wait() -> bool:
        time.sleep(_LOOK_SECONDS)
        return time.monotonic() < end

    return wait
