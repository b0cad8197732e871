"""Was it mined? Receipts by hash, checked against the chain that the endpoint now has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.publisher.line import Line, Lines, RefusedError
from oracle.publisher.refusals import refusal_of


@dataclass(frozen=True, slots=True)
class Receipt:
    """A transaction in a block of the canonical chain; `gas_price` in wei, as really paid."""

    hash: Hash
    block_number: int
    block_hash: Hash
    succeeded: bool
    gas_used: int
    gas_price: int
    # What the transaction created, where it did.
    contract: Address | None


class Call(NamedTuple):
    """A call as it was sent."""

    sender: Address
    to: Address
    calldata: str


def receipts_of(lines: Lines, hashes: Sequence[Hash]) -> dict[Hash, Receipt]:
    """Return the receipts that any endpoint has; what none has is not there.

    A null of one endpoint means nothing while another has it. One whose block is not the
    endpoint's own block of that height is left out: it is being reorged.

    Raises:
        TransientError: no endpoint answers.
    """
    found: dict[Hash, Receipt] = {}
    silence: TransientError | None = None
    answered = False
    for line in lines.all:
        try:
            found = _receipts(line, hashes) | found
            answered = True
        except TransientError as error:
            silence = error
    if not answered and silence is not None:
        raise silence
    return found


def nonce_at(lines: Lines, sender: Address, block: str) -> int:
    """Return how many transactions of the account are mined at a block (`latest`, `0x…`)."""
    return int(lines.ask("eth_getTransactionCount", sender, block), 16)


def balance_of(lines: Lines, account: Address) -> int:
    """Return the account's ether in wei, at the newest block."""
    return int(lines.ask("eth_getBalance", account, "latest"), 16)


def block_hashes(lines: Lines, numbers: Sequence[int]) -> dict[int, Hash]:
    """Return the hashes of the endpoint's own blocks of these heights, those that it has."""
    blocks = lines.ask_all([("eth_getBlockByNumber", (hex(one), False)) for one in numbers])
    return {
        number: Hash(block["hash"])
        for number, block in zip(numbers, blocks, strict=True)
        if block is not None
    }


def why_reverted(lines: Lines, receipt: Receipt, call: Call) -> str:
    """Ask again, on the block before, why a mined call failed; a guess where state moved on."""
    asked = {"from": call.sender, "to": call.to, "data": call.calldata, "value": "0x0"}
    try:
        lines.ask("eth_call", asked, hex(receipt.block_number - 1))
    except RefusedError as error:
        return str(refusal_of(error.output))
    except TransientError as error:
        return f"reverted; {error}"
    return "reverted, though it works on the block before: out of gas, or overtaken"


def _receipts(line: Line, hashes: Sequence[Hash]) -> dict[Hash, Receipt]:
    answers = line.ask_all([("eth_getTransactionReceipt", (one,)) for one in hashes])
    mined = [_receipt(answer) for answer in answers if answer is not None]
    blocks = line.ask_all(
        [("eth_getBlockByNumber", (hex(one.block_number), False)) for one in mined]
    )
    return {
        receipt.hash: receipt
        for receipt, block in zip(mined, blocks, strict=True)
        if block is not None and block["hash"] == receipt.block_hash
    }


def _receipt(answer: dict[str, Any]) -> Receipt:
    created = answer.get("contractAddress")
    return Receipt(
        hash=Hash(answer["transactionHash"]),
        block_number=int(answer["blockNumber"], 16),
        block_hash=Hash(answer["blockHash"]),
        succeeded=int(answer["status"], 16) == 1,
        gas_used=int(answer["gasUsed"], 16),
        gas_price=int(answer["effectiveGasPrice"], 16),
        contract=Address(created.lower()) if created else None,
    )
