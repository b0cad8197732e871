"""What samples of a chain's headers decide, whatever their order."""

import pytest
from hypothesis import given, strategies as st

from oracle.chain.verification.calibration import SAMPLES, Calibration, HeaderFeature

FEATURE = HeaderFeature.RECEIPTS

# Which samples came out right; too few of them to prove anything.
samples = st.tuples(st.integers(0, SAMPLES - 1), st.integers(0, 3 * SAMPLES)).flatmap(
    lambda many: st.permutations([True] * many[0] + [False] * many[1])
)


def sampled(outcomes: list[bool]) -> Calibration:
    calibration = Calibration()
    for number, is_right in enumerate(outcomes):
        calibration.judge(f"0x{number:064x}", {FEATURE: is_right})
    calibration.conclude()
    return calibration


@given(outcomes=samples)
def test_a_chain_is_given_up_where_twenty_samples_are_wrong_and_none_is_right(
    outcomes: list[bool],
):
    calibration = sampled(outcomes)
    is_hopeless = not any(outcomes) and len(outcomes) >= SAMPLES

    assert calibration.is_refuted(FEATURE) is is_hopeless
    assert not calibration.has(FEATURE)


@pytest.mark.parametrize("wrong", [0, 3 * SAMPLES])
def test_twenty_right_samples_prove_it_whatever_else_was_told(wrong: int):
    assert sampled([False] * wrong + [True] * SAMPLES).has(FEATURE)
