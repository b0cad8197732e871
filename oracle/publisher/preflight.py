"""Tries a call without sending it: what it would do on the newest block, and for how much gas."""

from dataclasses import dataclass
from enum import StrEnum

from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.publisher.line import Line, Lines, RefusedError
from oracle.publisher.refusals import Refusal, refusal_of


class Outcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    # No endpoint answered, or they contradict each other.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the endpoints say; `gas` is an estimate where the call works, else 0."""

    outcome: Outcome
    gas: int = 0
    refusal: Refusal | None = None
    reason: str = ""


def preflight(lines: Lines, sender: Address, to: Address, calldata: str) -> Verdict:
    """Ask every endpoint what the call would do now.

    It works when every endpoint that answers says so, and is refused when all of them do.
    """
    verdicts = [_ask(line, sender, to, calldata) for line in lines.all]
    answered = [verdict for verdict in verdicts if verdict.outcome is not Outcome.UNKNOWN]
    if not answered:
        return verdicts[0] if verdicts else Verdict(Outcome.UNKNOWN, reason="no endpoint")
    if len({verdict.outcome for verdict in answered}) > 1:
        reasons = "; ".join(verdict.reason for verdict in answered if verdict.reason)
        return Verdict(Outcome.UNKNOWN, reason=f"the endpoints disagree: {reasons}")
    return max(answered, key=lambda verdict: verdict.gas)


def _ask(line: Line, sender: Address, to: Address, calldata: str) -> Verdict:
    call = {"from": sender, "to": to, "data": calldata, "value": "0x0"}
    try:
        line.ask("eth_call", call, "latest")
        return Verdict(Outcome.OK, gas=int(line.ask("eth_estimateGas", call), 16))
    except RefusedError as error:
        if error.output is None and "revert" not in error.message.lower():
            # A rate limit, a method that is off: no word of the contract.
            return Verdict(Outcome.UNKNOWN, reason=str(error))
        refusal = refusal_of(error.output)
        return Verdict(Outcome.REFUSED, refusal=refusal, reason=str(refusal))
    except (TransientError, ValueError) as error:
        return Verdict(Outcome.UNKNOWN, reason=str(error))
