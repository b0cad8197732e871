"""Fees: never above the cap, and every bump is accepted by the pools."""

from hypothesis import given, strategies as st

from oracle.signing.signer import Fees
from oracle.txmgr.client.fee_quote import (
    FeeMarket,
    add_gas_margin,
    build_fee_market,
    bump_fees,
    compute_fees,
    raise_both_fees,
    raise_fee,
)

GWEI = 10**9
FEE = st.one_of(st.integers(0, 100), st.integers(0, 10_000 * GWEI))


def takes(old: Fees, new: Fees) -> bool:
    """Apply the pools' rule: 10 % more on both fees, and at least one wei more."""
    pairs = zip(old, new, strict=True)
    return all(fresh > last and 10 * fresh >= 11 * last for last, fresh in pairs)


@given(max_fee=FEE, tip=FEE, base=FEE, ask=FEE, cap=FEE)
def test_bumped_fees_are_accepted_by_mempools_and_stay_within_the_cap(
    max_fee: int, tip: int, base: int, ask: int, cap: int
):
    last = Fees(max_fee, min(tip, max_fee))
    new = bump_fees(last, FeeMarket(base, ask), cap)
    if new is not None:
        assert takes(last, new)
        assert new.tip <= new.max_fee <= cap
        # Enough for the next block, but never more of the cap than needed.
        assert new.max_fee >= base + ask


@given(max_fee=FEE, tip=FEE, base=FEE, ask=FEE, room=FEE)
def test_bump_close_to_cap_uses_minimal_fee(
    max_fee: int, tip: int, base: int, ask: int, room: int
):
    last = Fees(max_fee, min(tip, max_fee))
    cap = base + ask + room
    new = bump_fees(last, FeeMarket(base, ask), cap)
    if new is not None and room < base:
        assert new.max_fee == min(max(raise_fee(max_fee), base + ask), cap)


@given(max_fee=FEE, tip=FEE, base=FEE, ask=FEE)
def test_bump_is_always_possible_well_below_cap(max_fee: int, tip: int, base: int, ask: int):
    last = Fees(max(max_fee, 8), min(tip, max_fee // 2))
    room = 4 * (max_fee + base + ask + 8)
    assert bump_fees(last, FeeMarket(base, ask), room) is not None


@given(FEE)
def test_bumped_fee_is_at_least_nine_eighths_of_old_fee(fee: int):
    assert raise_fee(fee) > fee
    assert 8 * raise_fee(fee) >= 9 * fee


@given(max_fee=FEE, tip=FEE, cap=FEE)
def test_both_bumped_fees_rise_by_one_eighth_within_cap(max_fee: int, tip: int, cap: int):
    last = Fees(max_fee, min(tip, max_fee))
    new = raise_both_fees(last, cap)
    if new is None:
        assert raise_fee(max_fee) > cap
        return
    for old, fresh in zip(last, new, strict=True):
        assert fresh >= -(-9 * old // 8)
        assert fresh > old
    assert new.tip <= new.max_fee <= cap


@given(base=FEE, tip=FEE, cap=FEE)
def test_quote_covers_base_fee_and_stays_within_cap(base: int, tip: int, cap: int):
    fees = compute_fees(FeeMarket(base, tip), cap)
    if fees is None:
        assert base > cap
    else:
        assert base <= fees.max_fee <= cap
        assert fees.tip <= fees.max_fee


def test_quote_is_twice_base_fee_plus_tip():
    assert compute_fees(FeeMarket(10 * GWEI, GWEI), 100 * GWEI) == Fees(21 * GWEI, GWEI)


def test_market_tip_is_median_of_tips_or_floor():
    assert build_fee_market(5, [9, 1, 3]).tip == 3
    assert build_fee_market(5, [0, 0, 0], min_tip=2).tip == 2
    assert build_fee_market(5, []).tip == 0


def test_gas_limit_exceeds_estimate():
    assert add_gas_margin(100_000) == 130_000
