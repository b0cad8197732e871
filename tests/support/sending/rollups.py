"""The contracts and receipts of rollups, as far as an account's balance depends on them."""

from eth_utils.abi import function_signature_to_4byte_selector

from tests.support.sending.faults import Answer, Fault, Question
from tests.support.sending.proxy import Proxy

_RECEIPT = "eth_getTransactionReceipt"


def build_price_oracle_code(l1_fee: int, of_operator: int | None = None) -> str:
    """Return the code of a GasPriceOracle that always returns this `getL1Fee`.

    `of_operator`: the operator's fee per unit of gas. None: a contract from before Isthmus, which
    reverts when this fee is requested.
    """
    selector = function_signature_to_4byte_selector("getL1Fee(bytes)").hex()
    # Without a match: `of_operator` times the argument, or a revert.
    fallback_code = (
        "5f5ffd" if of_operator is None else f"6004357f{of_operator:064x}025f5260205ff3"
    )
    # The offset of the jump's destination: 14 bytes of code, then the fallback.
    place = 14 + len(fallback_code) // 2
    jump = f"5f3560e01c63{selector}1460{place:02x}57"
    return f"0x{jump}{fallback_code}5b7f{l1_fee:064x}5f5260205ff3"


def add_receipt_fields(*proxies: Proxy, **extra_fields: str) -> None:
    """Add fields to receipts that Anvil does not return."""

    def answer(_request: Question, response: Answer) -> Answer:
        receipt = response.get("result")
        return response if receipt is None else {**response, "result": {**receipt, **extra_fields}}

    for proxy in proxies:
        proxy.rule(_RECEIPT, Fault(answer=answer))
