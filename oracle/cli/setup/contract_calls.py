"""`contract calldata`: encodes emergency calls for the multisigs of admin, pauser and vetoer.

Nothing is sent, because the daemon holds none of these keys. The calls have the order of
docs/explanation/kickouts.md#power.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from oracle.bindings.codec import encode_call
from oracle.bindings.contract_errors import CONTRACT
from oracle.bindings.qos_oracle import OracleContract
from oracle.bindings.timelock import TimelockedCall, get_timelock_delay
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config
from oracle.cli.setup.contract_commands import contract
from oracle.cli.setup.spoken_values import print_contract_answer
from oracle.cli.setup.written_values import (
    encode_bytes32,
    parse_addresses,
    parse_hash_bytes,
    parse_optional_address,
    parse_required_address,
    parse_whole_number,
)
from oracle.daemon.compose import open_checked_chain
from oracle.daemon.senders import get_oracle_address, open_report_account
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.queries.contract_models import ContractCallAnswer


@dataclass(frozen=True, slots=True)
class _ContractFunction:
    """A function of the contract, the role that may call it, and its argument parsers."""

    function: str
    role: str
    parsers: tuple[Callable[[str], object], ...] = ()
    argument_names: str = ""


_EMERGENCY_CALLS: Mapping[str, _ContractFunction] = {
    "pause": _ContractFunction("pauseFor", "pauser", (parse_whole_number,), "SECONDS"),
    "pause-kicks": _ContractFunction("pauseKicks", "pauser"),
    "cancel-kick": _ContractFunction(
        "cancelKick", "vetoer", (parse_required_address, encode_bytes32), "NODE WHY"
    ),
    "drop-signer": _ContractFunction("dropSigner", "pauser", (parse_required_address,), "SIGNER"),
    "set-signers": _ContractFunction(
        "setSigners", "admin", (parse_addresses, parse_whole_number), "SIGNER,… QUORUM"
    ),
    "set-rules": _ContractFunction("setRules", "admin", (parse_hash_bytes,), "RULES_HASH"),
    "set-target": _ContractFunction("setTarget", "admin", (parse_optional_address,), "TARGET"),
    "readmit": _ContractFunction("readmit", "admin", (parse_required_address,), "NODE"),
    "resume": _ContractFunction("resume", "admin"),
    "resume-kicks": _ContractFunction("resumeKicks", "admin"),
}


def register(app: typer.Typer) -> None:
    """Do nothing: importing the module registers the command under `contract`."""
    del app


@contract.command(epilog="Example: qos-oracle contract calldata pause 86400")
def calldata(
    action: Annotated[
        str, typer.Argument(metavar="ACT", help=f"One of: {', '.join(_EMERGENCY_CALLS)}.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENTS", help="Arguments of the action, for example SECONDS for `pause`."
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    salt: Annotated[
        int,
        typer.Option(
            "--salt",
            help=("Salt that distinguishes a scheduled call from an earlier identical one."),
        ),
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Print calldata for emergency calls of admin, pauser or vetoer.

    Nothing is sent. Admin calls go through the timelock: the output has the call that schedules
    the action, and the call that executes it after the delay.
    """
    if action not in _EMERGENCY_CALLS:
        raise InputError(
            f"{action}: unknown action; expected one of: {', '.join(_EMERGENCY_CALLS)}"
        )
    contract_function = _EMERGENCY_CALLS[action]
    encoded_call = _encode_call(action, contract_function, arguments or [])
    settings = load_config(config)
    oracle = get_oracle_address(settings)
    with open_checked_chain(settings) as chain:
        pool_view = open_report_account(settings, chain).pool_view
        contract_state = OracleContract(pool_view, oracle).get_configuration()
        delay = (
            get_timelock_delay(pool_view, contract_state.admin)
            if contract_function.role == "admin"
            else None
        )
    sender = {
        "pauser": contract_state.pauser,
        "vetoer": contract_state.vetoer,
        "admin": contract_state.admin,
    }[contract_function.role]
    answer = ContractCallAnswer(
        act=action, sender=f"{contract_function.role} {sender}", to=oracle, calldata=encoded_call
    )
    if delay is not None:
        timelocked_call = TimelockedCall(oracle, encoded_call, salt)
        answer = build_timelocked_answer(action, timelocked_call, contract_state.admin, delay)
    print_contract_answer(answer, as_json=as_json)


def build_timelocked_answer(
    action: str, call: TimelockedCall, timelock: Address, delay: int
) -> ContractCallAnswer:
    """Return the calls that schedule and execute an admin call; `delay` in seconds, may be 0."""
    return ContractCallAnswer(
        act=action,
        sender=f"a proposer of the timelock {timelock}; after the delay, anyone",
        to=timelock,
        calldata=call.calldata,
        schedule=call.encode_schedule(delay),
        execute=call.encode_execute(),
        delay_seconds=delay,
    )


def _encode_call(
    action: str, contract_function: _ContractFunction, arguments: Sequence[str]
) -> str:
    if len(arguments) != len(contract_function.parsers):
        raise InputError(
            f"{action}: wrong number of arguments; expected "
            f"{contract_function.argument_names or 'none'}"
        )
    values = [
        parse(argument)
        for parse, argument in zip(contract_function.parsers, arguments, strict=True)
    ]
    return encode_call(CONTRACT, contract_function.function, *values)
