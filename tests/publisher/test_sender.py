"""What endpoints say to a send, as clients of several vendors word it."""

from collections.abc import Callable
from typing import Any

import pytest

from oracle.publisher.line import Line, Lines
from oracle.publisher.sender import Answer, Sent, answer_of, send
from tests.evm.chain import Chain
from tests.evm.fixtures import chain, fresh_chain
from tests.faulty_endpoint import Fault, faulty_endpoint

__all__ = ["chain", "fresh_chain"]

SEND = "eth_sendRawTransaction"
# Nothing that a chain would take: what matters is what the endpoints make of it.
RAW = bytes.fromhex("02c0")

WORDS = [
    ("already known", Answer.ALREADY),
    ("AlreadyKnown", Answer.UNKNOWN),
    ("transaction already imported", Answer.ALREADY),
    ("Known transaction: 0x12", Answer.ALREADY),
    ("nonce too low: next nonce 5, tx nonce 4", Answer.NONCE_TOO_LOW),
    ("Nonce too low. Expected nonce to be 1 but got 0.", Answer.NONCE_TOO_LOW),
    ("OldNonce", Answer.NONCE_TOO_LOW),
    ("nonce too high", Answer.NONCE_TOO_HIGH),
    ("replacement transaction underpriced", Answer.UNDERPRICED_REPLACEMENT),
    ("FeeTooLowToCompete", Answer.UNDERPRICED_REPLACEMENT),
    ("transaction underpriced: gas tip cap 0", Answer.UNDERPRICED),
    ("max fee per gas less than block base fee", Answer.UNDERPRICED),
    ("Insufficient funds for gas * price + value", Answer.FUNDS),
    ("sender doesn't have enough funds to send tx", Answer.FUNDS),
    ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", Answer.CAP),
    ("intrinsic gas too low", Answer.INTRINSIC),
    ("txpool is full", Answer.POOL),
    ("invalid chain id for signer", Answer.CHAIN),
    ("invalid signature", Answer.MALFORMED),
    ("Too Many Requests", Answer.AMBIGUOUS),
    ("the moon is full", Answer.UNKNOWN),
]


@pytest.mark.parametrize(("words", "answer"), WORDS)
def test_refusals_are_told_apart_by_their_words(words: str, answer: Answer):
    assert answer_of(words) is answer


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
