"""`contract calldata`: emergency calls of admin, pauser and vetoer, for their multisigs.

Nothing is sent, because the daemon holds none of these keys. The calls are ordered as in
docs/explanation/kickouts.md#power.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from oracle.bindings.codec import call_input
from oracle.bindings.contract_errors import CONTRACT
from oracle.bindings.qos_oracle import OracleContract
from oracle.bindings.timelock import DEFAULT_DELAY, TimelockedCall, delay_of
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config
from oracle.cli.setup.contract_commands import contract
from oracle.cli.setup.spoken_values import tell
from oracle.cli.setup.written_values import (
    address_in,
    addresses_in,
    hash_in,
    number_in,
    word_in,
)
from oracle.daemon.compose import open_checked_chain
from oracle.daemon.senders import oracle_address, report_account
from oracle.errors import InputError
from oracle.queries.contract_models import ContractCallAnswer


@dataclass(frozen=True, slots=True)
class _ContractFunction:
    """A function of the contract, the role that may call it, and its argument parsers."""

    function: str
    role: str
    reads: tuple[Callable[[str], object], ...] = ()
    shown: str = ""


_ACTS: Mapping[str, _ContractFunction] = {
    "pause": _ContractFunction("pauseFor", "pauser", (number_in,), "SECONDS"),
    "pause-kicks": _ContractFunction("pauseKicks", "pauser"),
    "cancel-kick": _ContractFunction("cancelKick", "vetoer", (address_in, word_in), "NODE WHY"),
    "drop-signer": _ContractFunction("dropSigner", "pauser", (address_in,), "SIGNER"),
    "set-signers": _ContractFunction(
        "setSigners", "admin", (addresses_in, number_in), "SIGNER,… QUORUM"
    ),
    "set-rules": _ContractFunction("setRules", "admin", (hash_in,), "RULES_HASH"),
    "set-target": _ContractFunction("setTarget", "admin", (address_in,), "TARGET"),
    "readmit": _ContractFunction("readmit", "admin", (address_in,), "NODE"),
    "resume": _ContractFunction("resume", "admin"),
    "resume-kicks": _ContractFunction("resumeKicks", "admin"),
}


def register(app: typer.Typer) -> None:
    """Do nothing: importing the module registers the command under `contract`."""
    del app


@contract.command(epilog="Example: qos-oracle contract calldata pause 86400")
def calldata(
    act: Annotated[str, typer.Argument(metavar="ACT", help=f"One of: {', '.join(_ACTS)}.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENTS", help="What it is told.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    salt: Annotated[
        int, typer.Option("--salt", help="Tells a scheduled call from an equal one before it.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Print calldata for emergency calls of admin, pauser or vetoer.

    Nothing is sent. Admin calls go through the timelock: the output has the call that schedules
    the action, and the call that executes it after the delay.
    """
    if act not in _ACTS:
        raise InputError(f"{act}: there are {', '.join(_ACTS)}")
    chosen = _ACTS[act]
    written = _written(act, chosen, arguments or [])
    settings = load_config(config)
    oracle = oracle_address(settings)
    with open_checked_chain(settings) as chain:
        lines = report_account(settings, chain).lines
        found = OracleContract(lines, oracle).constitution()
        delay = delay_of(lines, found.admin) if chosen.role == "admin" else None
    sender = {"pauser": found.pauser, "vetoer": found.vetoer, "admin": found.admin}[chosen.role]
    answer = ContractCallAnswer(
        act=act, sender=f"{chosen.role} {sender}", to=oracle, calldata=written
    )
    if delay is not None:
        held = TimelockedCall(oracle, written, salt)
        answer = ContractCallAnswer(
            act=act,
            sender=f"who may propose to the timelock {found.admin}; then anyone",
            to=found.admin,
            calldata=written,
            schedule=held.schedule(delay or DEFAULT_DELAY),
            execute=held.execute(),
            delay_seconds=delay,
        )
    tell(answer, as_json=as_json)


def _written(name: str, act: _ContractFunction, arguments: Sequence[str]) -> str:
    if len(arguments) != len(act.reads):
        raise InputError(f"{name}: must be told {act.shown or 'nothing'}")
    values = [read(one) for read, one in zip(act.reads, arguments, strict=True)]
    return call_input(CONTRACT, act.function, *values)
