"""The responses of endpoints to a send, in the wording of several clients."""

from collections.abc import Callable
from typing import Any

import pytest

from oracle.txmgr.client.send_raw import (
    SendOutcome,
    SendResult,
    classify_send_response,
    send_raw_transaction,
)
from tests.pools import caller_of, pool_of
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.faulty_endpoint import Fault, run_faulty_endpoint

__all__ = ["chain", "fresh_chain"]

SEND = "eth_sendRawTransaction"
# Not a valid transaction: the test is about the endpoints' responses.
RAW = bytes.fromhex("02c0")

# By client, with the message from its source or its response.
WORDS = {
    "geth": [
        ("already known", SendOutcome.ALREADY),
        ("nonce too low: address 0x12, tx: 4 state: 5", SendOutcome.NONCE_TOO_LOW),
        ("nonce too high: address 0x12, tx: 9 state: 5", SendOutcome.NONCE_TOO_HIGH),
        ("gapped-nonce tx from delegated accounts", SendOutcome.NONCE_TOO_HIGH),
        ("replacement transaction underpriced", SendOutcome.UNDERPRICED_REPLACEMENT),
        (
            "replacement transaction underpriced: new tx gas fee cap 1 <= 2 queued",
            SendOutcome.UNDERPRICED_REPLACEMENT,
        ),
        ("transaction underpriced: gas tip cap 0, minimum needed 1", SendOutcome.UNDERPRICED),
        ("max fee per gas less than block base fee: maxFeePerGas: 1", SendOutcome.UNDERPRICED),
        (
            "max priority fee per gas higher than max fee per gas: tip 2, fee 1",
            SendOutcome.MALFORMED,
        ),
        ("insufficient funds for gas * price + value: balance 0, tx cost 1", SendOutcome.FUNDS),
        ("transaction would cause overdraft", SendOutcome.FUNDS),
        ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", SendOutcome.CAP),
        ("intrinsic gas too low: gas 20000, minimum needed 21000", SendOutcome.INTRINSIC),
        (
            "insufficient gas for floor data gas cost: gas 1, minimum needed 2",
            SendOutcome.INTRINSIC,
        ),
        ("exceeds block gas limit", SendOutcome.INTRINSIC),
        ("transaction gas limit too high (cap: 16777216, tx: 20000000)", SendOutcome.INTRINSIC),
        ("txpool is full", SendOutcome.POOL),
        ("account limit exceeded: pooled 16 txs", SendOutcome.POOL),
        ("invalid chain id for signer: have 1 want 2", SendOutcome.CHAIN),
        ("invalid sender", SendOutcome.CHAIN),
        ("oversized data: transaction size 200000, limit 131072", SendOutcome.MALFORMED),
        ("transaction type not supported", SendOutcome.MALFORMED),
        ("rlp: expected input list for types.DynamicFeeTx", SendOutcome.MALFORMED),
    ],
    "nethermind": [
        ("AlreadyKnown", SendOutcome.ALREADY),
        ("OwnNonceAlreadyUsed", SendOutcome.ALREADY),
        ("OldNonce, Current nonce: 5, nonce of rejected tx: 4", SendOutcome.NONCE_TOO_LOW),
        ("NonceGap, Future nonce. Expected nonce: 5", SendOutcome.NONCE_TOO_HIGH),
        ("FeeTooLowToCompete", SendOutcome.UNDERPRICED_REPLACEMENT),
        ("ReplacementNotAllowed", SendOutcome.UNDERPRICED_REPLACEMENT),
        ("FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 2", SendOutcome.UNDERPRICED),
        ("InsufficientFunds, Account balance: 0, cumulative cost: 1", SendOutcome.FUNDS),
        ("GasLimitExceeded, Gas limit: 1, gas limit of rejected tx: 2", SendOutcome.INTRINSIC),
        ("FailedToResolveSender", SendOutcome.CHAIN),
        ("Invalid, transaction Hash is null", SendOutcome.MALFORMED),
    ],
    "besu": [
        ("Known transaction", SendOutcome.ALREADY),
        ("Nonce too low", SendOutcome.NONCE_TOO_LOW),
        ("Nonce too high", SendOutcome.NONCE_TOO_HIGH),
        (
            "Transaction nonce is too distant from current sender nonce",
            SendOutcome.NONCE_TOO_HIGH,
        ),
        ("Replacement transaction underpriced", SendOutcome.UNDERPRICED_REPLACEMENT),
        ("Gas price below configured minimum gas price", SendOutcome.UNDERPRICED),
        ("Gas price below current base fee", SendOutcome.UNDERPRICED),
        ("Upfront cost exceeds account balance", SendOutcome.FUNDS),
        ("Transaction fee cap exceeded", SendOutcome.CAP),
        ("Intrinsic gas exceeds gas limit", SendOutcome.INTRINSIC),
        ("Transaction gas limit exceeds block gas limit", SendOutcome.INTRINSIC),
        ("Wrong chainId", SendOutcome.CHAIN),
        ("ChainId not supported", SendOutcome.CHAIN),
        ("Invalid signature", SendOutcome.MALFORMED),
        ("Initial sync is still in progress", SendOutcome.AMBIGUOUS),
    ],
    "erigon": [
        ("existing tx with same hash", SendOutcome.ALREADY),
        ("nonce too low", SendOutcome.NONCE_TOO_LOW),
        ("could not replace existing tx", SendOutcome.UNDERPRICED_REPLACEMENT),
        ("underpriced", SendOutcome.UNDERPRICED),
        ("fee too low", SendOutcome.UNDERPRICED),
        ("insufficient funds", SendOutcome.FUNDS),
        ("IntrinsicGas", SendOutcome.INTRINSIC),
        ("pending sub-pool is full", SendOutcome.POOL),
        ("spammer", SendOutcome.POOL),
        ("RLPTooLong", SendOutcome.MALFORMED),
        ("unsupported transaction type", SendOutcome.MALFORMED),
    ],
    "parity": [
        ("Transaction with the same hash was already imported.", SendOutcome.ALREADY),
        (
            "Transaction nonce is too low. Try incrementing the nonce.",
            SendOutcome.NONCE_TOO_LOW,
        ),
        (
            (
                "Transaction gas price 1gwei is too low. There is another transaction with same "
                "nonce in the queue with gas price 2gwei."
            ),
            SendOutcome.UNDERPRICED_REPLACEMENT,
        ),
        (
            "Transaction gas price is too low. It does not satisfy your node's minimal gas price",
            SendOutcome.UNDERPRICED,
        ),
        ("Insufficient funds. The account you tried to send from", SendOutcome.FUNDS),
        ("Transaction gas is too low. There is not enough gas to cover", SendOutcome.INTRINSIC),
        (
            (
                "There are too many transactions in the queue. "
                "Your transaction was dropped due to limit."
            ),
            SendOutcome.POOL,
        ),
        ("Sender is banned in local queue", SendOutcome.MALFORMED),
    ],
    "reth": [
        ("already known", SendOutcome.ALREADY),
        ("nonce too low: next nonce 5, tx nonce 4", SendOutcome.NONCE_TOO_LOW),
        (
            "[0x12]: insufficient gas price to replace existing transaction.",
            SendOutcome.UNDERPRICED_REPLACEMENT,
        ),
        ("[0x12] Transaction feeCap 1 below chain minimum.", SendOutcome.UNDERPRICED),
        ("insufficient funds for gas * price + value: have 0 want 1", SendOutcome.FUNDS),
        ("intrinsic gas too high", SendOutcome.INTRINSIC),
        ("0x12 identified as spammer. Transaction 0x34 rejected.", SendOutcome.POOL),
        ("invalid chain ID", SendOutcome.CHAIN),
    ],
    "nitro": [
        ("invalid transaction nonce", SendOutcome.NONCE_TOO_LOW),
        ("gas price too low", SendOutcome.UNDERPRICED),
        ("not enough funds for gas", SendOutcome.FUNDS),
        ("sequencer pending tx pool full, please try again", SendOutcome.POOL),
        ("queue full", SendOutcome.POOL),
        ("forbidden sender address", SendOutcome.MALFORMED),
        ("sequencer temporarily not available", SendOutcome.AMBIGUOUS),
    ],
    "anvil": [
        ("transaction already imported", SendOutcome.ALREADY),
        ("nonce too low", SendOutcome.NONCE_TOO_LOW),
        ("replacement transaction underpriced", SendOutcome.UNDERPRICED_REPLACEMENT),
        ("max fee per gas less than block base fee", SendOutcome.UNDERPRICED),
        ("Insufficient funds for gas * price + value", SendOutcome.FUNDS),
        ("intrinsic gas too low", SendOutcome.INTRINSIC),
        ("invalid chain id for signer", SendOutcome.CHAIN),
    ],
    "hardhat": [
        ("Known transaction: 0x12", SendOutcome.ALREADY),
        ("Nonce too low. Expected nonce to be 1 but got 0.", SendOutcome.NONCE_TOO_LOW),
        ("Nonce too high. Expected nonce to be 0 but got 3.", SendOutcome.NONCE_TOO_HIGH),
        (
            (
                "Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 2 is "
                "necessary to replace the existing transaction with nonce 1."
            ),
            SendOutcome.UNDERPRICED_REPLACEMENT,
        ),
        (
            (
                "Transaction maxFeePerGas (1) is too low for the next block, which has a "
                "baseFeePerGas of 2"
            ),
            SendOutcome.UNDERPRICED,
        ),
        ("sender doesn't have enough funds to send tx", SendOutcome.FUNDS),
        ("Transaction gas limit is 2 and exceeds block gas limit of 1", SendOutcome.INTRINSIC),
        (
            "Error: VM Exception while processing transaction: reverted with custom error",
            SendOutcome.AMBIGUOUS,
        ),
    ],
    "ganache": [
        (
            "the tx doesn't have the correct nonce. account has nonce of: 5 tx has nonce of: 4",
            SendOutcome.NONCE_TOO_LOW,
        ),
        (
            "the tx doesn't have the correct nonce. account has nonce of: 5 tx has nonce of: 7",
            SendOutcome.NONCE_TOO_HIGH,
        ),
        ("transaction underpriced", SendOutcome.UNDERPRICED),
        ("base fee exceeds gas limit", SendOutcome.INTRINSIC),
        ("VM Exception while processing transaction: revert", SendOutcome.AMBIGUOUS),
    ],
    "a provider": [
        ("Too Many Requests", SendOutcome.AMBIGUOUS),
        ("the method eth_sendRawTransaction does not exist/is not available", SendOutcome.POOL),
        (
            "fee too low: 1, use at least tx.gasLimit = 2 and tx.gasPrice = 3",
            SendOutcome.UNDERPRICED,
        ),
        ("the moon is full", SendOutcome.UNKNOWN),
    ],
}
SAID = [(client, words, answer) for client, table in WORDS.items() for words, answer in table]


@pytest.mark.parametrize(("client", "words", "answer"), SAID)
def test_send_errors_are_classified_by_text(client: str, words: str, answer: SendOutcome):
    assert classify_send_response(words) is answer, client


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (-38010, SendOutcome.NONCE_TOO_LOW),
        (-32009, SendOutcome.UNDERPRICED),
        (-32603, SendOutcome.AMBIGUOUS),
        (-32000, SendOutcome.UNKNOWN),
    ],
)
def test_send_error_with_an_unknown_text_is_classified_by_code(code: int, answer: SendOutcome):
    assert classify_send_response("transaction rejected", code) is answer


def test_send_without_a_response_is_ambiguous(fresh_chain: Chain):
    with run_faulty_endpoint(fresh_chain.url) as endpoint:
        endpoint.faults[SEND] = Fault.SWALLOW
        sent = send_raw_transaction(pool_of(endpoint.url), RAW)
    assert (sent.outcome, sent.is_accepted) == (SendOutcome.AMBIGUOUS, False)


def test_transaction_known_to_one_endpoint_counts_as_sent(fresh_chain: Chain):
    with (
        run_faulty_endpoint(fresh_chain.url) as first_endpoint,
        run_faulty_endpoint(fresh_chain.url) as second_endpoint,
    ):
        first_endpoint.faults[SEND] = "nonce too high"
        second_endpoint.faults[SEND] = "already known"
        sent = send_raw_transaction(pool_of(first_endpoint.url, second_endpoint.url), RAW)
    assert sent == SendResult(SendOutcome.ALREADY, "already known")


def test_every_endpoint_receives_the_transaction_once(fresh_chain: Chain):
    with (
        run_faulty_endpoint(fresh_chain.url) as first_endpoint,
        run_faulty_endpoint(fresh_chain.url) as second_endpoint,
    ):
        first_endpoint.faults[SEND] = Fault.SWALLOW
        second_endpoint.faults[SEND] = "txpool is full"
        sent = send_raw_transaction(pool_of(first_endpoint.url, second_endpoint.url), RAW)
        assert (first_endpoint.seen, second_endpoint.seen) == ([SEND], [SEND])
    # A response is more informative than a missing one.
    assert sent.outcome is SendOutcome.POOL


def test_send_error_is_fatal_only_if_every_endpoint_returns_it(fresh_chain: Chain):
    with (
        run_faulty_endpoint(fresh_chain.url) as first_endpoint,
        run_faulty_endpoint(fresh_chain.url) as second_endpoint,
    ):
        first_endpoint.faults[SEND] = "eth_sendRawTransaction is forbidden for this key"
        second_endpoint.faults[SEND] = Fault.SWALLOW
        silent = send_raw_transaction(pool_of(first_endpoint.url, second_endpoint.url), RAW)
        first_endpoint.faults[SEND] = "oversized data"
        second_endpoint.faults[SEND] = "tx fee exceeds the configured cap"
        refusal = send_raw_transaction(pool_of(first_endpoint.url, second_endpoint.url), RAW)
    assert (silent.outcome, "forbidden for this key" in silent.text) == (
        SendOutcome.AMBIGUOUS,
        True,
    )
    assert refusal.outcome is SendOutcome.CAP


def test_credentials_in_endpoint_url_are_never_shown():
    pool = pool_of("http://user:s3cret@127.0.0.1:1/v3/0123456789abcdef?key=hidden")
    sent = send_raw_transaction(pool, RAW)
    printed = f"{[*pool]} {pool.create_view().callers} {sent}"
    assert not [secret for secret in ("s3cret", "0123456789abcdef", "hidden") if secret in printed]
    assert "127.0.0.1" in printed


def record_batch_sizes(post: Callable[..., Any], sizes: list[int]) -> Callable[..., Any]:
    """Record the size of every batch."""

    def noting(method: str, count: int, *about: object) -> object:
        sizes.append(count)
        return post(method, count, *about)

    return noting


def test_batches_contain_at_most_one_hundred_requests(
    fresh_chain: Chain, monkeypatch: pytest.MonkeyPatch
):
    line = caller_of(fresh_chain.url)
    sizes: list[int] = []
    wire = line.endpoint.client._wire
    monkeypatch.setattr(wire, "post", record_batch_sizes(wire.post, sizes))
    numbers = [hex(number) for number in range(250)]
    blocks = line.request_all([("eth_getBlockByNumber", (number, False)) for number in numbers])
    line.endpoint.close()
    assert (sizes, blocks[0]["number"], len(blocks)) == ([100, 100, 50], "0x0", 250)
