"""`contract show`, `check`, `deploy`: the oracle contract beside what we are configured for."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.deployment import (
    DEFAULT_LIMITS,
    Deployment,
    OracleSetup,
    check_funds,
    deploy as deploy_contract,
    plan_deployment,
    with_limits,
)
from oracle.bindings.inspection import code_hash, inspected, shipped_code_hash
from oracle.bindings.qos_oracle import ContractConfiguration
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app, print_json
from oracle.daemon.app import App
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError
from oracle.rpc.pool import EndpointPool
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.fee_quote import SendLimits

# How long `contract deploy --publish` waits for its receipt.
_PATIENCE_SECONDS = 120
_LOOK_SECONDS = 1.0

contract = typer.Typer(no_args_is_help=True)

_LimitOption = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=NUMBER", help="A limit other than the default."),
]


def register(app: typer.Typer) -> None:
    """Put `contract` on the command line."""
    app.add_typer(contract, name="contract", help="The oracle contract: deploy, show, check.")


@contract.command(epilog="Example: qos-oracle contract show --json")
def show(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Show the contract's code hash, roles, signers, rules, limits and head."""
    with open_app(config) as app:
        found = app.contract.constitution()
    _tell(_answer(found), as_json=as_json)


@contract.command(epilog="Example: qos-oracle contract check")
def check(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Compare the contract with the configuration; exit code 2 where they differ."""
    with open_app(config) as app:
        address = app.oracle_address
        _, found = inspected(app.publisher.lines, address, app.expected)
    if as_json:
        print_json([asdict(difference) for difference in found])
    elif not found:
        typer.echo(f"{address} is as configured")
    else:
        for difference in found:
            typer.echo(difference.line())
    if found:
        raise InputError(f"{address} differs from the configuration in {len(found)} points")


@contract.command(epilog="Example: qos-oracle contract deploy --admin 0x… --limit min_interval=30")
def deploy(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    admin: Annotated[str, typer.Option("--admin", help="Who sets limits, signers and rules.")],
    pauser: Annotated[str, typer.Option("--pauser", help="Who may stop for a while.")] = "",
    vetoer: Annotated[str, typer.Option("--vetoer", help="Who may cancel kickouts.")] = "",
    limit: _LimitOption = None,
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
    """Deploy a QoSOracle for the configured network and rules; a dry run unless --publish."""
    with open_app(config) as app:
        payer = _payer(app, keystore, password_file)
        setup = _setup(app, (admin, pauser, vetoer), limit or [])
        _check_network(app)
        publisher = _lookout(app)
        try:
            planned = plan_deployment(publisher.lines, setup, payer.address, publisher.fees())
            answer = _plan_answer(planned)
            if not (publish and as_json):
                _tell(answer, as_json=as_json)
            _check_cost(app, planned)
            if not publish:
                typer.echo("dry run: nothing was sent; --publish sends it", err=True)
                return
            chain_id = app.config.chain.id
            address, receipt = deploy_contract(
                publisher.pool, payer, planned, chain_id, _patience()
            )
        finally:
            publisher.pool.close()
    landed = {"address": address, "transaction": receipt.hash, "gas_used": receipt.gas_used}
    # One document, where a program reads it.
    _tell({**answer, **landed} if as_json else landed, as_json=as_json)
    typer.echo(f"next: the network's admin calls setOracle({address})", err=True)


def _setup(app: App, roles: tuple[str, str, str], limits: list[str]) -> OracleSetup:
    if app.keys is None or app.keys.signer is None:
        raise InputError("keys: no signer is configured; the contract needs to know it")
    admin, pauser, vetoer = (_address(role) for role in roles)
    return OracleSetup(
        network=Address(app.config.network.contracts["TaskNetwork"]),
        admin=admin,
        pauser=pauser,
        vetoer=vetoer,
        signers=(app.keys.signer.address,),
        rules_hash=app.rules_hash,
        limits=with_limits(
            DEFAULT_LIMITS,
            {
                "kick_below": app.report_settings.kick_below,
                "anchor_window": app.config.oracle.anchor_window,
                **dict(_limit(written) for written in limits),
            },
        ),
    )


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


def _address(given: str) -> Address:
    if not given:
        return ZERO_ADDRESS
    if re.fullmatch(r"0x[0-9a-fA-F]{40}", given) is None:
        raise InputError(f"{given}: an address is 0x and 40 hex digits")
    return Address(given.lower())


def _limit(written: str) -> tuple[str, int]:
    name, equals, number = written.partition("=")
    if not equals or not number.isdecimal():
        raise InputError(f"--limit {written}: write it as NAME=NUMBER")
    return name, int(number)


def _plan_answer(planned: Deployment) -> dict[str, object]:
    setup = asdict(planned.setup)
    return {
        "contract": "QoSOracle",
        "code_hash": planned.code_hash,
        "arguments": setup,
        "sender": planned.sender,
        "gas_limit": planned.gas_limit,
        "max_fee_per_gas_wei": str(planned.fees.max_fee),
        "max_cost_wei": str(planned.cost),
        "balance_wei": str(planned.balance),
    }


def _answer(found: ContractConfiguration) -> dict[str, object]:
    contract_status = found.contract_status
    masked = code_hash(found.code)
    return {
        "code_hash": masked,
        "is_our_code": masked == shipped_code_hash(),
        "network": found.network,
        "admin": found.admin,
        "pauser": found.pauser,
        "vetoer": found.vetoer,
        "signers": list(found.signers),
        "quorum": found.quorum,
        "rules_hash": contract_status.rules_hash,
        "last_report": contract_status.last_report,
        "head": asdict(contract_status.head),
        "limits": asdict(contract_status.limits),
    }


def _tell(answer: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    shown = dict(_flat(answer))
    width = max(map(len, shown)) + 2
    for name, value in shown.items():
        typer.echo(f"{name:<{width}}{value}")


def _flat(answer: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield nested values under their whole names."""
    for name, value in answer.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        elif isinstance(value, (list, tuple)):
            yield above + name, ", ".join(str(one) for one in value)
        else:
            yield above + name, value
