"""`contract deploy`: a timelock, and an oracle of which it is the admin."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.deployment import (
    DEFAULT_LIMITS,
    NO_FLOORS,
    Deployment,
    OracleSetup,
    check_funds,
    created_address,
    deploy as deploy_contract,
    plan_deployment,
    with_limits,
)
from oracle.bindings.timelock import DEFAULT_DELAY, TimelockSetup, granting_canceller
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app
from oracle.cli.setup.contract_commands import contract, tell
from oracle.cli.setup.written_values import address_in, limit_in
from oracle.daemon.app import App
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError
from oracle.rpc.pool import EndpointPool
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.fee_quote import SendLimits
from oracle.txmgr.client.receipts import nonce_at

# How long `contract deploy --publish` waits for each receipt.
_PATIENCE_SECONDS = 120
_LOOK_SECONDS = 1.0
_NOBODY = ""


@dataclass(frozen=True, slots=True)
class _People:
    """Who gets which power; `owner` of the timelock, with `dev` the admin itself."""

    owner: Address
    signers: tuple[Address, ...]
    quorum: int
    pauser: Address
    vetoer: Address
    delay: int
    dev: bool

    def check(self) -> None:
        """Raise InputError: one key could do harm at once, and nobody could stop it."""
        faults = []
        if len(self.signers) < 2 or self.quorum < 2:  # noqa: PLR2004  one is nobody's quorum
            faults.append("--signers and --quorum: at least two have to sign")
        if ZERO_ADDRESS in {self.pauser, self.vetoer}:
            faults.append("--pauser and --vetoer: name who can stop what goes wrong")
        if faults and not self.dev:
            raise InputError("; ".join([*faults, "--dev allows it, on a chain of your own"]))


def register(app: typer.Typer) -> None:
    """Nothing is left to do: the command stands under `contract`, on the command line already."""
    del app


@contract.command(
    epilog="Example: qos-oracle contract deploy --admin 0x… --signers 0x…,0x…,0x… --quorum 2 "
    "--pauser 0x… --vetoer 0x…"
)
def deploy(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    admin: Annotated[
        str, typer.Option("--admin", help="The multisig that proposes to the timelock.")
    ],
    signers: Annotated[
        str, typer.Option("--signers", help="Who signs, by commas; default: our own signer.")
    ] = _NOBODY,
    quorum: Annotated[int, typer.Option("--quorum", help="How many of them must.")] = 1,
    pauser: Annotated[str, typer.Option("--pauser", help="Who may stop for a while.")] = _NOBODY,
    vetoer: Annotated[str, typer.Option("--vetoer", help="Who may cancel kickouts.")] = _NOBODY,
    admin_delay: Annotated[
        int, typer.Option("--admin-delay", help="Seconds that what the admin does has to wait.")
    ] = DEFAULT_DELAY,
    target: Annotated[
        str, typer.Option("--target", help="Who ends memberships; default: the network, if ours.")
    ] = _NOBODY,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=NUMBER", help="A limit other than the default."),
    ] = None,
    dev: Annotated[
        bool, typer.Option("--dev", help="No timelock, no floors, one signer will do.")
    ] = False,
    keystore: Annotated[
        Path | None, typer.Option("--keystore", help="The key that pays; default: transmitter.")
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="Its password file.")
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish/--dry-run", help="Send it; default: only say what it is.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Deploy an oracle for the configured network and rules, and a timelock as its admin.

    A dry run unless --publish. A limit's numbers are within floors that nobody can loosen.
    """
    with open_app(config) as app:
        payer = _payer(app, keystore, password_file)
        people = _People(
            owner=address_in(admin),
            signers=_signers(app, signers),
            quorum=quorum,
            pauser=address_in(pauser),
            vetoer=address_in(vetoer),
            delay=admin_delay,
            dev=dev,
        )
        people.check()
        setup = _setup(app, people, address_in(target), limit or [])
        _check_network(app)
        publisher = _lookout(app)
        try:
            _Plan(app, publisher, payer, people, setup).run(publish=publish, as_json=as_json)
        finally:
            publisher.pool.close()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is deployed, by whom; the oracle's admin is filled in where a timelock is."""

    app: App
    publisher: SenderAccount
    payer: Signer
    people: _People
    setup: OracleSetup

    def run(self, *, publish: bool, as_json: bool) -> None:
        """Say what it would be; then do it, if asked."""
        lines, sender = self.publisher.lines, self.payer.address
        nonce = nonce_at(lines, sender, "pending")
        timelock = None if self.people.dev else created_address(sender, nonce)
        setup = replace(self.setup, admin=timelock or self.people.owner)
        answer = self._planned(setup)
        if timelock is not None:
            answer["timelock"] = {
                "address": timelock,
                "owner": self.people.owner,
                "delay": self.people.delay,
            }
        if not (publish and as_json):
            tell(answer, as_json=as_json)
        if not publish:
            typer.echo("dry run: nothing was sent; --publish sends it", err=True)
            return
        landed: dict[str, object] = {}
        if timelock is not None:
            waits = TimelockSetup(self.people.owner, self.people.delay)
            found, _ = self._sent(waits.code)
            setup, landed["timelock"] = replace(setup, admin=found), found
        address, gas_used = self._sent(setup.code)
        landed |= {"address": address, "gas_used": gas_used}
        # One document, where a program reads it.
        tell({**answer, **landed} if as_json else landed, as_json=as_json)
        for line in self._next_steps(address, setup.admin):
            typer.echo(line, err=True)

    def _planned(self, setup: OracleSetup) -> dict[str, object]:
        lines, fees = self.publisher.lines, self.publisher.fees()
        planned = plan_deployment(lines, setup.code, self.payer.address, fees)
        _check_cost(self.app, planned)
        return {
            "contract": "QoSOracle",
            "code_hash": planned.code_hash,
            "arguments": asdict(setup),
            "sender": planned.sender,
            "gas_limit": planned.gas_limit,
            "max_fee_per_gas_wei": str(planned.fees.max_fee),
            "max_cost_wei": str(planned.cost),
            "balance_wei": str(planned.balance),
        }

    def _sent(self, code: str) -> tuple[Address, int]:
        publisher = self.publisher
        planned = plan_deployment(publisher.lines, code, self.payer.address, publisher.fees())
        _check_cost(self.app, planned)
        chain_id = self.app.config.chain.id
        address, receipt = deploy_contract(
            publisher.pool, self.payer, planned, chain_id, _patience()
        )
        return address, receipt.gas_used

    def _next_steps(self, oracle: Address, admin: Address) -> list[str]:
        steps = [f"next: the network's admin calls setOracle({oracle})"]
        if not self.people.dev:
            owner, delay = self.people.owner, self.people.delay
            grant = granting_canceller(admin, self.people.vetoer)
            steps.append(
                f"next, so that the vetoer cancels what is scheduled: {owner} sends {admin} "
                f"{grant.schedule(delay)}, and anyone {grant.execute()} after {delay} s"
            )
        return steps


def _signers(app: App, written: str) -> tuple[Address, ...]:
    if written:
        return tuple(address_in(one.strip()) for one in written.split(","))
    if app.keys is None or app.keys.signer is None:
        raise InputError(
            "--signers: name them, or configure a signer: the contract has to know it"
        )
    return (app.keys.signer.address,)


def _setup(app: App, people: _People, target: Address, limits: list[str]) -> OracleSetup:
    wanted = {
        "kick_below": app.report_settings.kick_below,
        "anchor_window": app.config.oracle.anchor_window,
        **dict(limit_in(written) for written in limits),
    }
    setup = OracleSetup(
        admin=people.owner,
        pauser=people.pauser,
        vetoer=people.vetoer,
        target=target if target != ZERO_ADDRESS else app.kick_target or ZERO_ADDRESS,
        signers=people.signers,
        quorum=people.quorum,
        rules_hash=app.rules_hash,
        limits=with_limits(DEFAULT_LIMITS, wanted),
    )
    return replace(setup, floors=NO_FLOORS) if people.dev else setup


def _check_network(app: App) -> None:
    """Look for the chain and the network first: a deployed contract belongs to them for ever.

    An oracle contract may be configured already, and be gone: this deploys the next one.
    """
    told = app.config
    without = told.oracle.model_copy(update={"address": None, "publish": False})
    with App(told.model_copy(update={"oracle": without})) as network:
        network.chain.heads()


def _lookout(app: App) -> SenderAccount:
    """A publisher that belongs to no contract yet, and cannot sign."""
    told = app.config
    caps = SendLimits(
        told.limits.max_fee_per_gas_wei,
        told.limits.max_cost_per_transaction_wei,
        told.limits.max_cost_per_day_wei,
    )
    pool = EndpointPool.open(told.chain.endpoints, told.chain.id)
    return SenderAccount(pool, domain=Domain(told.chain.id, ZERO_ADDRESS), caps=caps)


def _payer(app: App, keystore: Path | None, password_file: Path | None) -> Signer:
    if (keystore is None) != (password_file is None):
        raise InputError("--keystore and --password-file: give both or none")
    if keystore is not None and password_file is not None:
        return KeySigner.open(keystore, password_file)
    if app.keys is None or app.keys.transmitter is None:
        raise InputError("--keystore: name the key that pays, or configure a transmitter")
    return app.keys.transmitter


def _check_cost(app: App, planned: Deployment) -> None:
    most = app.config.limits.max_cost_per_transaction_wei
    if planned.cost > most:
        raise InputError(
            f"it may cost {planned.cost} wei, above limits.max_cost_per_transaction_wei {most}"
        )
    check_funds(planned)


def _patience() -> Callable[[], bool]:
    """Wait a moment between two looks; False when it has been long enough."""
    end = time.monotonic() + _PATIENCE_SECONDS

    def wait() -> bool:
        time.sleep(_LOOK_SECONDS)
        return time.monotonic() < end

    return wait
