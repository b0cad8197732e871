"""What endpoints say to a send, as clients of several vendors word it."""

from collections.abc import Callable
from typing import Any

import pytest

from oracle.rpc.fanout import Line, Lines
from oracle.txmgr.client.send_raw import Answer, Sent, answer_of, send
from tests.evm.chain import Chain
from tests.evm.fixtures import chain, fresh_chain
from tests.faulty_endpoint import Fault, faulty_endpoint

__all__ = ["chain", "fresh_chain"]

SEND = "eth_sendRawTransaction"
# Nothing that a chain would take: what matters is what the endpoints make of it.
RAW = bytes.fromhex("02c0")

# By client, as its own source or the client itself words it.
WORDS = {
    "geth": [
        ("already known", Answer.ALREADY),
        ("nonce too low: address 0x12, tx: 4 state: 5", Answer.NONCE_TOO_LOW),
        ("nonce too high: address 0x12, tx: 9 state: 5", Answer.NONCE_TOO_HIGH),
        ("gapped-nonce tx from delegated accounts", Answer.NONCE_TOO_HIGH),
        ("replacement transaction underpriced", Answer.UNDERPRICED_REPLACEMENT),
        (
            "replacement transaction underpriced: new tx gas fee cap 1 <= 2 queued",
            Answer.UNDERPRICED_REPLACEMENT,
        ),
        ("transaction underpriced: gas tip cap 0, minimum needed 1", Answer.UNDERPRICED),
        ("max fee per gas less than block base fee: maxFeePerGas: 1", Answer.UNDERPRICED),
        (
            "max priority fee per gas higher than max fee per gas: tip 2, fee 1",
            Answer.MALFORMED,
        ),
        ("insufficient funds for gas * price + value: balance 0, tx cost 1", Answer.FUNDS),
        ("transaction would cause overdraft", Answer.FUNDS),
        ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", Answer.CAP),
        ("intrinsic gas too low: gas 20000, minimum needed 21000", Answer.INTRINSIC),
        ("insufficient gas for floor data gas cost: gas 1, minimum needed 2", Answer.INTRINSIC),
        ("exceeds block gas limit", Answer.INTRINSIC),
        ("transaction gas limit too high (cap: 16777216, tx: 20000000)", Answer.INTRINSIC),
        ("txpool is full", Answer.POOL),
        ("account limit exceeded: pooled 16 txs", Answer.POOL),
        ("invalid chain id for signer: have 1 want 2", Answer.CHAIN),
        ("invalid sender", Answer.CHAIN),
        ("oversized data: transaction size 200000, limit 131072", Answer.MALFORMED),
        ("transaction type not supported", Answer.MALFORMED),
        ("rlp: expected input list for types.DynamicFeeTx", Answer.MALFORMED),
    ],
    "nethermind": [
        ("AlreadyKnown", Answer.ALREADY),
        ("OwnNonceAlreadyUsed", Answer.ALREADY),
        ("OldNonce, Current nonce: 5, nonce of rejected tx: 4", Answer.NONCE_TOO_LOW),
        ("NonceGap, Future nonce. Expected nonce: 5", Answer.NONCE_TOO_HIGH),
        ("FeeTooLowToCompete", Answer.UNDERPRICED_REPLACEMENT),
        ("ReplacementNotAllowed", Answer.UNDERPRICED_REPLACEMENT),
        ("FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 2", Answer.UNDERPRICED),
        ("InsufficientFunds, Account balance: 0, cumulative cost: 1", Answer.FUNDS),
        ("GasLimitExceeded, Gas limit: 1, gas limit of rejected tx: 2", Answer.INTRINSIC),
        ("FailedToResolveSender", Answer.CHAIN),
        ("Invalid, transaction Hash is null", Answer.MALFORMED),
    ],
    "besu": [
        ("Known transaction", Answer.ALREADY),
        ("Nonce too low", Answer.NONCE_TOO_LOW),
        ("Nonce too high", Answer.NONCE_TOO_HIGH),
        (
            "Transaction nonce is too distant from current sender nonce",
            Answer.NONCE_TOO_HIGH,
        ),
        ("Replacement transaction underpriced", Answer.UNDERPRICED_REPLACEMENT),
        ("Gas price below configured minimum gas price", Answer.UNDERPRICED),
        ("Gas price below current base fee", Answer.UNDERPRICED),
        ("Upfront cost exceeds account balance", Answer.FUNDS),
        ("Transaction fee cap exceeded", Answer.CAP),
        ("Intrinsic gas exceeds gas limit", Answer.INTRINSIC),
        ("Transaction gas limit exceeds block gas limit", Answer.INTRINSIC),
        ("Wrong chainId", Answer.CHAIN),
        ("ChainId not supported", Answer.CHAIN),
        ("Invalid signature", Answer.MALFORMED),
        ("Initial sync is still in progress", Answer.AMBIGUOUS),
    ],
    "erigon": [
        ("existing tx with same hash", Answer.ALREADY),
        ("nonce too low", Answer.NONCE_TOO_LOW),
        ("could not replace existing tx", Answer.UNDERPRICED_REPLACEMENT),
        ("underpriced", Answer.UNDERPRICED),
        ("fee too low", Answer.UNDERPRICED),
        ("insufficient funds", Answer.FUNDS),
        ("IntrinsicGas", Answer.INTRINSIC),
        ("pending sub-pool is full", Answer.POOL),
        ("spammer", Answer.POOL),
        ("RLPTooLong", Answer.MALFORMED),
        ("unsupported transaction type", Answer.MALFORMED),
    ],
    "parity": [
        ("Transaction with the same hash was already imported.", Answer.ALREADY),
        (
            "Transaction nonce is too low. Try incrementing the nonce.",
            Answer.NONCE_TOO_LOW,
        ),
        (
            (
                "Transaction gas price 1gwei is too low. There is another transaction with same "
                "nonce in the queue with gas price 2gwei."
            ),
            Answer.UNDERPRICED_REPLACEMENT,
        ),
        (
            "Transaction gas price is too low. It does not satisfy your node's minimal gas price",
            Answer.UNDERPRICED,
        ),
        ("Insufficient funds. The account you tried to send from", Answer.FUNDS),
        ("Transaction gas is too low. There is not enough gas to cover", Answer.INTRINSIC),
        (
            (
                "There are too many transactions in the queue. "
                "Your transaction was dropped due to limit."
            ),
            Answer.POOL,
        ),
        ("Sender is banned in local queue", Answer.MALFORMED),
    ],
    "reth": [
        ("already known", Answer.ALREADY),
        ("nonce too low: next nonce 5, tx nonce 4", Answer.NONCE_TOO_LOW),
        (
            "[0x12]: insufficient gas price to replace existing transaction.",
            Answer.UNDERPRICED_REPLACEMENT,
        ),
        ("[0x12] Transaction feeCap 1 below chain minimum.", Answer.UNDERPRICED),
        ("insufficient funds for gas * price + value: have 0 want 1", Answer.FUNDS),
        ("intrinsic gas too high", Answer.INTRINSIC),
        ("0x12 identified as spammer. Transaction 0x34 rejected.", Answer.POOL),
        ("invalid chain ID", Answer.CHAIN),
    ],
    "nitro": [
        ("invalid transaction nonce", Answer.NONCE_TOO_LOW),
        ("gas price too low", Answer.UNDERPRICED),
        ("not enough funds for gas", Answer.FUNDS),
        ("sequencer pending tx pool full, please try again", Answer.POOL),
        ("queue full", Answer.POOL),
        ("forbidden sender address", Answer.MALFORMED),
        ("sequencer temporarily not available", Answer.AMBIGUOUS),
    ],
    "anvil": [
        ("transaction already imported", Answer.ALREADY),
        ("nonce too low", Answer.NONCE_TOO_LOW),
        ("replacement transaction underpriced", Answer.UNDERPRICED_REPLACEMENT),
        ("max fee per gas less than block base fee", Answer.UNDERPRICED),
        ("Insufficient funds for gas * price + value", Answer.FUNDS),
        ("intrinsic gas too low", Answer.INTRINSIC),
        ("invalid chain id for signer", Answer.CHAIN),
    ],
    "hardhat": [
        ("Known transaction: 0x12", Answer.ALREADY),
        ("Nonce too low. Expected nonce to be 1 but got 0.", Answer.NONCE_TOO_LOW),
        ("Nonce too high. Expected nonce to be 0 but got 3.", Answer.NONCE_TOO_HIGH),
        (
            (
                "Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 2 is "
                "necessary to replace the existing transaction with nonce 1."
            ),
            Answer.UNDERPRICED_REPLACEMENT,
        ),
        (
            (
                "Transaction maxFeePerGas (1) is too low for the next block, which has a "
                "baseFeePerGas of 2"
            ),
            Answer.UNDERPRICED,
        ),
        ("sender doesn't have enough funds to send tx", Answer.FUNDS),
        ("Transaction gas limit is 2 and exceeds block gas limit of 1", Answer.INTRINSIC),
        (
            "Error: VM Exception while processing transaction: reverted with custom error",
            Answer.AMBIGUOUS,
        ),
    ],
    "ganache": [
        (
            "the tx doesn't have the correct nonce. account has nonce of: 5 tx has nonce of: 4",
            Answer.NONCE_TOO_LOW,
        ),
        (
            "the tx doesn't have the correct nonce. account has nonce of: 5 tx has nonce of: 7",
            Answer.NONCE_TOO_HIGH,
        ),
        ("transaction underpriced", Answer.UNDERPRICED),
        ("base fee exceeds gas limit", Answer.INTRINSIC),
        ("VM Exception while processing transaction: revert", Answer.AMBIGUOUS),
    ],
    "a provider": [
        ("Too Many Requests", Answer.AMBIGUOUS),
        ("the method eth_sendRawTransaction does not exist/is not available", Answer.POOL),
        ("fee too low: 1, use at least tx.gasLimit = 2 and tx.gasPrice = 3", Answer.UNDERPRICED),
        ("the moon is full", Answer.UNKNOWN),
    ],
}
SAID = [(client, words, answer) for client, table in WORDS.items() for words, answer in table]


@pytest.mark.parametrize(("client", "words", "answer"), SAID)
def test_refusals_are_told_apart_by_their_words(client: str, words: str, answer: Answer):
    assert answer_of(words) is answer, client


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (-38010, Answer.NONCE_TOO_LOW),
        (-32009, Answer.UNDERPRICED),
        (-32603, Answer.AMBIGUOUS),
        (-32000, Answer.UNKNOWN),
    ],
)
def test_where_the_words_say_nothing_the_code_may(code: int, answer: Answer):
    assert answer_of("transaction rejected", code) is answer


def test_silence_means_that_it_may_be_in_the_pool(fresh_chain: Chain):
    with faulty_endpoint(fresh_chain.url) as endpoint:
        endpoint.faults[SEND] = Fault.SWALLOW
        sent = send(Lines([Line(endpoint.url)]), RAW)
    assert (sent.answer, sent.is_accepted) == (Answer.AMBIGUOUS, False)


def test_one_accepting_pool_is_enough(fresh_chain: Chain):
    with faulty_endpoint(fresh_chain.url) as one, faulty_endpoint(fresh_chain.url) as other:
        one.faults[SEND] = "nonce too high"
        other.faults[SEND] = "already known"
        sent = send(Lines([Line(one.url), Line(other.url)]), RAW)
    assert sent == Sent(Answer.ALREADY, "already known")


def test_every_endpoint_gets_the_bytes_once(fresh_chain: Chain):
    with faulty_endpoint(fresh_chain.url) as one, faulty_endpoint(fresh_chain.url) as other:
        one.faults[SEND] = Fault.SWALLOW
        other.faults[SEND] = "txpool is full"
        sent = send(Lines([Line(one.url), Line(other.url)]), RAW)
        assert (one.seen, other.seen) == ([SEND], [SEND])
    # What somebody said tells more than silence.
    assert sent.answer is Answer.POOL


def test_what_stops_a_sender_is_said_by_every_endpoint(fresh_chain: Chain):
    with faulty_endpoint(fresh_chain.url) as one, faulty_endpoint(fresh_chain.url) as other:
        one.faults[SEND] = "eth_sendRawTransaction is forbidden for this key"
        other.faults[SEND] = Fault.SWALLOW
        silent = send(Lines([Line(one.url), Line(other.url)]), RAW)
        one.faults[SEND] = "oversized data"
        other.faults[SEND] = "tx fee exceeds the configured cap"
        told = send(Lines([Line(one.url), Line(other.url)]), RAW)
    assert (silent.answer, "forbidden for this key" in silent.text) == (Answer.AMBIGUOUS, True)
    assert told.answer is Answer.CAP


def test_a_key_in_the_address_of_an_endpoint_is_never_shown():
    line = Line("http://user:s3cret@127.0.0.1:1/v3/0123456789abcdef?key=hidden")
    sent = send(Lines([line]), RAW)
    shown = f"{line!r} {sent}"
    assert not [secret for secret in ("s3cret", "0123456789abcdef", "hidden") if secret in shown]
    assert "127.0.0.1" in shown


def measured(post: Callable[..., Any], sizes: list[int]) -> Callable[..., Any]:
    """The same, with the size of every batch noted."""

    def noting(body: list[object], method: str) -> object:
        sizes.append(len(body))
        return post(body, method)

    return noting


def test_no_endpoint_is_asked_for_more_than_a_hundred_at_once(
    fresh_chain: Chain, monkeypatch: pytest.MonkeyPatch
):
    line = Line(fresh_chain.url)
    sizes: list[int] = []
    monkeypatch.setattr(line, "_post", measured(line._post, sizes))
    numbers = [hex(number) for number in range(250)]
    blocks = line.ask_all([("eth_getBlockByNumber", (one, False)) for one in numbers])
    line.close()
    assert (sizes, blocks[0]["number"], len(blocks)) == ([100, 100, 50], "0x0", 250)
