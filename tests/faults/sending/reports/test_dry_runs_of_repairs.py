"""`--dry-run` of a raise or no-op prints what the real run would: fees and refusals."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from eth_utils.crypto import keccak

from tests.support.harness import CAPS, RULES, Harness
from tests.support.sending.faults import Answer, Fault, Question, respond_with, return_error
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    get_only_intent,
    list_attempts,
    mine_expensive_blocks,
    reject_known_transactions,
    send_unmined_push,
)
from tests.support.sending.operator_commands import Operator
from tests.support.sending.proxy import SEND, Proxy
from tests.support.txmgr.operator_actions import cancel_intent

_ESTIMATE = "eth_estimateGas"
PAUSED = "0x" + keccak(b"Paused()")[:4].hex()
Proxies = tuple[Proxy, Proxy]
Story = Callable[[Harness, Proxies], None]


@pytest.fixture(autouse=True)
def use_test_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oracle.daemon.config.loader.build_rules", lambda *_: RULES)


@pytest.fixture
def operator(
    proxied_harness: Harness,
    proxies: Proxies,
    sqlite_url: str,
    capsys: pytest.CaptureFixture[str],
) -> Operator:
    database = Path(sqlite_url.removeprefix("sqlite:///"))
    urls = [proxy.url for proxy in proxies]
    return Operator(proxied_harness, database, database.parent, capsys, urls)


def leave_push_pending(harness: Harness, proxies: Proxies) -> None:
    reject_known_transactions(*proxies)
    send_unmined_push(harness, replace(BY_BLOCKS, bump_seconds=10**6))
    mine_expensive_blocks(harness, 4 * GWEI)


def raise_gas_estimate(harness: Harness, proxies: Proxies) -> None:
    """Let the call wait until its gas is estimated again, at a higher value."""
    leave_push_pending(harness, proxies)
    mine_expensive_blocks(harness, 4 * GWEI, 10)
    more = list_attempts(harness)[0].signed.gas_limit * 2
    for proxy in proxies:
        proxy.rule(_ESTIMATE, respond_with(hex(more)))


def raise_gas_estimate_beyond_limit(harness: Harness, proxies: Proxies) -> None:
    """Raise the call's gas estimate so that its maximum cost exceeds the limit."""
    raise_gas_estimate(harness, proxies)
    signed = list_attempts(harness)[0].signed
    harness.caps = replace(CAPS, cost_per_transaction=signed.gas_limit * 5 * GWEI)


def build_revert_response(request: Question, _: Answer) -> Answer:
    revert_error = {"code": 3, "message": "execution reverted", "data": PAUSED}
    return {"jsonrpc": "2.0", "id": request["id"], "error": revert_error}


def let_call_revert(harness: Harness, proxies: Proxies) -> None:
    leave_push_pending(harness, proxies)
    mine_expensive_blocks(harness, 4 * GWEI, 10)
    for proxy in proxies:
        proxy.rule(_ESTIMATE, Fault(forwards=False, answer=build_revert_response))


def let_call_be_refused_for_gas(harness: Harness, proxies: Proxies) -> None:
    for proxy in proxies:
        proxy.rule(
            SEND, return_error("intrinsic gas too low: gas 90000, minimum needed 91000"), times=1
        )
        proxy.rule(_ESTIMATE, respond_with(hex(90_000)))
    harness.period()
    harness.tick()
    assert list_attempts(harness)[0].last_error_class == "intrinsic"


def raise_market_above_cap(harness: Harness, proxies: Proxies) -> None:
    leave_push_pending(harness, proxies)
    harness.caps = replace(CAPS, fee_per_gas=6 * GWEI)
    mine_expensive_blocks(harness, 9 * GWEI)


def reach_fee_cap(harness: Harness, proxies: Proxies) -> None:
    leave_push_pending(harness, proxies)
    harness.caps = replace(CAPS, fee_per_gas=list_attempts(harness)[0].signed.max_fee_wei + 1)


def spend_daily_budget(harness: Harness, proxies: Proxies) -> None:
    leave_push_pending(harness, proxies)
    harness.caps = replace(CAPS, cost_per_day=1)


def mine_push(harness: Harness, _: Proxies) -> None:
    send_unmined_push(harness)
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.testbed.chain.mine()
    assert harness.testbed.round == 1


def displace_call(harness: Harness, proxies: Proxies) -> None:
    leave_push_pending(harness, proxies)
    cancel_intent(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)


# The story, what the operator then does, and the exit code.
CASES = (
    (leave_push_pending, "bump", 0),
    (leave_push_pending, "cancel", 0),
    (raise_gas_estimate, "bump", 0),
    (raise_gas_estimate_beyond_limit, "bump", 2),
    (raise_gas_estimate_beyond_limit, "cancel", 2),
    (let_call_revert, "bump", 2),
    (let_call_be_refused_for_gas, "bump", 0),
    (raise_market_above_cap, "bump", 2),
    (raise_market_above_cap, "cancel", 0),
    (reach_fee_cap, "cancel", 2),
    (spend_daily_budget, "bump", 2),
    (mine_push, "bump", 2),
    (mine_push, "cancel", 2),
    (displace_call, "cancel", 2),
)


@pytest.mark.parametrize(
    ("story", "command", "code"), CASES, ids=[f"{one[0].__name__}-{one[1]}" for one in CASES]
)
def test_dry_run_reports_the_fees_of_the_real_command(
    operator: Operator, proxies: Proxies, story: Story, command: str, code: int
):
    harness = operator.harness
    story(harness, proxies)
    operator.release_lease()
    arguments = [
        "outbox",
        command,
        harness.intents()[0].id,
        *(["--yes"] if command == "cancel" else []),
    ]
    before = operator.rows()
    sent = proxies[0].count(SEND)

    dry_run_text = operator.does(*arguments, "--dry-run")

    assert (operator.rows(), proxies[0].count(SEND)) == (before, sent)
    real = operator.does(*arguments)
    assert dry_run_text.code == real.code == code, real
    assert (dry_run_text.promise, dry_run_text.complaint) == (real.promise, real.complaint)
    if code:
        return
    signed = list_attempts(harness)[-1].signed
    assert dry_run_text.answer["max_fee_wei"] == str(signed.max_fee_wei)
    assert dry_run_text.answer["tip_wei"] == str(signed.tip_wei)
    assert dry_run_text.answer["gas_limit"] == signed.gas_limit
    assert str(signed.max_fee_wei) in dry_run_text.answer["detail"]
    assert proxies[0].count(SEND) > sent


def test_dry_run_reports_that_a_running_daemon_blocks_the_command(
    operator: Operator, proxies: Proxies
):
    leave_push_pending(operator.harness, proxies)
    arguments = ("outbox", "bump", get_only_intent(operator.harness).id)
    dry_run_text = operator.does(*arguments, "--dry-run")
    real = operator.does(*arguments)
    assert (dry_run_text.code, real.code) == (0, 1)
    assert "test works on this database" in dry_run_text.complaint
    assert "another process works on this database: test" in real.complaint


def test_bump_of_a_mined_call_reports_its_block(operator: Operator, proxies: Proxies):
    mine_push(operator.harness, proxies)
    operator.release_lease()
    outcome = operator.does("outbox", "bump", operator.harness.intents()[0].id)
    assert outcome.code == 2
    assert "is already in a block" in outcome.complaint
