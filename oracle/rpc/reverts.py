"""What an endpoint's error says: a revert is the EVM's word, everything else is its own."""

import re

from oracle.errors import TransientError
from oracle.rpc.error_kinds import ErrorKind, kind_of
from oracle.rpc.replies import fault_of
from oracle.rpc.rpc_errors import RpcError
from oracle.telemetry.logging_setup import without_secrets

# Endpoints may say as much as they like; that much is kept.
_LONGEST_WORDS = 200
# Calls are run by the EVM; of no other question can a revert be the answer.
_RUN = frozenset({"eth_call", "eth_estimateGas"})
# JSON-RPC's code of a revert, in Geth and those who follow it.
_REVERT_CODE = 3
# Geth, Erigon, Anvil, Hardhat, Ganache, Besu, Reth say "revert"; OpenEthereum and Nethermind
# "VM execution error"; the others stop the EVM in another way.
_REVERT = re.compile(
    r"revert|vm execution error|invalid opcode|out of gas|stack (?:under|over)flow"
    r"|bad instruction|invalid jump|always failing transaction",
    re.IGNORECASE,
)
# The rate, or a quota; elsewhere some of them mean what is said beside them.
_WAIT_CODES = frozenset({429, 42903, -32005, -32007, -32012, -32029, -32090})
_OTHER_THAN_RATE = re.compile(r"gas|authori|batch|range|fee|pool|queue", re.IGNORECASE)
# How Nethermind and OpenEthereum begin a revert's output.
_REVERTED = "Reverted "


class CallRefusedError(TransientError):
    """The endpoint understood and said no; `output` is what a reverted call returned.

    `code` is JSON-RPC's, 0 where there is none.
    """

    def __init__(
        self, line: str, method: str, message: str, output: str | None, code: int = 0
    ) -> None:
        super().__init__(f"{line} refused {method}: {message}")
        self.message = message
        self.output = output
        self.code = code

    @property
    def asks_to_wait(self) -> bool:
        """It was asked too often."""
        if isinstance(self, RevertError):
            return False
        is_by_code = self.code in _WAIT_CODES and not _OTHER_THAN_RATE.search(self.message)
        return is_by_code or kind_of(0, self.message) is ErrorKind.THROTTLED


class RevertError(CallRefusedError):
    """The call was run and reverted: an answer of the EVM, which every endpoint would give."""


def refusal_from(line: str, method: str, error: object) -> CallRefusedError:
    """Read the `error` of a JSON-RPC answer, whatever its shape."""
    fault = fault_of(error)
    message = _words(fault.message)
    output = _output(error.get("data")) if isinstance(error, dict) else None
    is_run = method in _RUN
    if is_run and (fault.code == _REVERT_CODE or output is not None or _REVERT.search(message)):
        return RevertError(line, method, message, output, fault.code)
    return CallRefusedError(line, method, message, output, fault.code)


def _words(said: str) -> str:
    return " ".join(without_secrets(said).split())[:_LONGEST_WORDS]


def _output(given: object) -> str | None:
    """Find the revert's output: some endpoints wrap it once more, or begin it with a word."""
    if isinstance(given, dict):
        given = given.get("data") or given.get("result")
    if not isinstance(given, str):
        return None
    given = given.removeprefix(_REVERTED)
    return given if given.startswith("0x") else None


def is_late(error: RpcError) -> bool:
    """Tell whether a connection was waited for in vain; one that is refused costs nothing."""
    return error.words.endswith("in time")
