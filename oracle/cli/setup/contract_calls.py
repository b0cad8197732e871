"""Encodes calls by the admin, pauser, vetoer and proposers, whose keys the daemon lacks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from oracle.bindings.codec import encode_call
from oracle.bindings.qos_roots import CONTRACT, RootsConfiguration
from oracle.bindings.timelock import TimelockedCall
from oracle.cli.setup.contract_values import (
    encode_text_as_bytes32,
    parse_addresses,
    parse_hash_bytes,
    parse_limits,
    parse_optional_address,
    parse_required_address,
    parse_whole_number,
)
from oracle.domain.events.oracle_events import ContractKickLimits, RootsLimits
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.queries.contract_models import ContractCallAnswer

ADMIN, PAUSER, VETOER = "admin", "pauser", "vetoer"
# A proposer of the timelock, and the account that was offered the vetoer role.
PROPOSER, NEW_VETOER = "proposer", "new vetoer"


@dataclass(frozen=True, slots=True)
class ContractFunction:
    """A contract function, the role that may call it, and parsers for its arguments."""

    function: str
    role: str
    parsers: tuple[Callable[[str], object], ...] = ()
    argument_names: str = ""


_LIMITS = (partial(parse_limits, RootsLimits),)
_KICK_LIMITS = (partial(parse_limits, ContractKickLimits),)

# The contract function behind each action of the command line.
CONTRACT_CALLS: Mapping[str, ContractFunction] = {
    "pause": ContractFunction("pauseFor", PAUSER, (parse_whole_number,), "SECONDS"),
    "pause-kicks": ContractFunction("pauseKicks", PAUSER),
    "strike": ContractFunction("strike", PAUSER, (parse_whole_number,), "ROUND"),
    "tighten-limits": ContractFunction("tightenLimits", PAUSER, _LIMITS, "NAME=NUMBER,…"),
    "drop-signer": ContractFunction("dropSigner", PAUSER, (parse_required_address,), "SIGNER"),
    "withdraw-vetoer-offer": ContractFunction("withdrawVetoerOffer", PAUSER),
    "veto": ContractFunction(
        "veto", VETOER, (parse_required_address, encode_text_as_bytes32), "NODE WHY"
    ),
    "allow": ContractFunction(
        "allow", VETOER, (parse_required_address, parse_whole_number), "NODE DUE_SINCE"
    ),
    "cancel-operation": ContractFunction(
        "cancelOperation", VETOER, (parse_hash_bytes,), "OPERATION"
    ),
    "offer-vetoer": ContractFunction("offerVetoer", PROPOSER, (parse_required_address,), "VETOER"),
    "accept-vetoer": ContractFunction("acceptVetoer", NEW_VETOER),
    "set-signers": ContractFunction(
        "setSigners", ADMIN, (parse_addresses, parse_whole_number), "SIGNER,… QUORUM"
    ),
    "set-rules": ContractFunction("setRules", ADMIN, (parse_hash_bytes,), "RULES_HASH"),
    "set-limits": ContractFunction("setLimits", ADMIN, _LIMITS, "NAME=NUMBER,…"),
    "set-kick-limits": ContractFunction("setKickLimits", ADMIN, _KICK_LIMITS, "NAME=NUMBER,…"),
    "set-target": ContractFunction("setTarget", ADMIN, (parse_optional_address,), "TARGET"),
    "set-pauser": ContractFunction("setPauser", ADMIN, (parse_required_address,), "PAUSER"),
    "set-vetoer": ContractFunction("setVetoer", ADMIN, (parse_required_address,), "VETOER"),
    "readmit": ContractFunction("readmit", ADMIN, (parse_required_address,), "NODE"),
    "resume": ContractFunction("resume", ADMIN),
    "resume-kicks": ContractFunction("resumeKicks", ADMIN),
}


def encode_contract_call(action: str, arguments: Sequence[str]) -> str:
    """Encode the calldata of an action with arguments from the command line.

    Raises:
        InputError: the action is unknown, or its arguments are not valid.
    """
    if action not in CONTRACT_CALLS:
        raise InputError(f"{action}: unknown action; expected one of: {', '.join(CONTRACT_CALLS)}")
    contract_function = CONTRACT_CALLS[action]
    if len(arguments) != len(contract_function.parsers):
        raise InputError(
            f"{action}: wrong number of arguments; expected "
            f"{contract_function.argument_names or 'none'}"
        )
    parsed_arguments = [
        parse(argument)
        for parse, argument in zip(contract_function.parsers, arguments, strict=True)
    ]
    try:
        return encode_call(CONTRACT, contract_function.function, *parsed_arguments)
    except ValueError as error:
        raise InputError(f"{action}: {error}") from error


def build_contract_call(
    action: str,
    calldata: str,
    oracle: Address,
    configuration: RootsConfiguration,
    delay: int | None,
    salt: int = 0,
) -> ContractCallAnswer:
    """Build a call to the oracle contract, and name the account that must send it.

    If the admin is a timelock with a `delay` in seconds, a call of the admin is scheduled and
    executed through the timelock.
    """
    contract_function = CONTRACT_CALLS[action]
    if contract_function.role == ADMIN and delay is not None:
        call = TimelockedCall(oracle, calldata, salt)
        return _build_timelocked_result(action, call, configuration.admin, delay)
    sender_by_role = {
        ADMIN: f"admin {configuration.admin}",
        PAUSER: f"pauser {configuration.pauser}",
        VETOER: f"vetoer {configuration.vetoer}",
        PROPOSER: f"a proposer of the timelock {configuration.admin}",
        NEW_VETOER: f"pending vetoer {configuration.pending_vetoer}",
    }
    return ContractCallAnswer(
        act=action, sender=sender_by_role[contract_function.role], to=oracle, calldata=calldata
    )


def _build_timelocked_result(
    action: str, call: TimelockedCall, timelock: Address, delay: int
) -> ContractCallAnswer:
    """Build the calls that schedule and execute an admin call through a timelock.

    `delay` is in seconds, and may be 0.
    """
    return ContractCallAnswer(
        act=action,
        sender=f"a proposer of the timelock {timelock}; after the delay, anyone",
        to=timelock,
        calldata=call.calldata,
        schedule=call.encode_schedule_call(delay),
        execute=call.encode_execute_call(),
        operation=call.operation_id,
        delay_seconds=delay,
    )
