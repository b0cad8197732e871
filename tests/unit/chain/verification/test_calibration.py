"""Samples of headers lead to the same result in any order."""

import pytest
from hypothesis import given, strategies as st

from oracle.chain.verification.calibration import REQUIRED_SAMPLES, Calibration, HeaderFeature

FEATURE = HeaderFeature.RECEIPTS

# Whether each sample succeeded; they are too few to prove anything.
samples = st.tuples(
    st.integers(0, REQUIRED_SAMPLES - 1), st.integers(0, 3 * REQUIRED_SAMPLES)
).flatmap(lambda many: st.permutations([True] * many[0] + [False] * many[1]))


def calibrate(outcomes: list[bool]) -> Calibration:
    calibration = Calibration()
    for number, is_right in enumerate(outcomes):
        calibration.record_sample(f"0x{number:064x}", {FEATURE: is_right})
    calibration.mark_unsupported_features()
    return calibration


@given(outcomes=samples)
def test_feature_is_unsupported_after_enough_wrong_samples(
    outcomes: list[bool],
):
    calibration = calibrate(outcomes)
    is_hopeless = not any(outcomes) and len(outcomes) >= REQUIRED_SAMPLES

    assert calibration.is_unsupported(FEATURE) is is_hopeless
    assert not calibration.is_proven(FEATURE)


@pytest.mark.parametrize("wrong", [0, 3 * REQUIRED_SAMPLES])
def test_feature_with_enough_valid_samples_is_proven(wrong: int):
    assert calibrate([False] * wrong + [True] * REQUIRED_SAMPLES).is_proven(FEATURE)


# A sample, and whether a provider failed to answer.
judged = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=4 * REQUIRED_SAMPLES)


@given(outcomes=judged)
def test_wrong_sample_counts_only_after_all_providers_have_responded(
    outcomes: list[tuple[bool, bool]],
):
    calibration = Calibration()
    for number, (is_right, is_unheard) in enumerate(outcomes):
        unheard = ["provider"] if is_unheard else []
        calibration.record_sample(f"0x{number:064x}", {FEATURE: is_right}, unheard)
    calibration.mark_unsupported_features()
    heard_wrong = sum(not is_right for is_right, is_unheard in outcomes if not is_unheard)
    right = sum(is_right for is_right, _ in outcomes)

    assert calibration.is_proven(FEATURE) is (right >= REQUIRED_SAMPLES)
    assert calibration.is_unsupported(FEATURE) is (right == 0 and heard_wrong >= REQUIRED_SAMPLES)


def test_later_valid_sample_resolves_an_inconclusive_one():
    calibration = Calibration()
    calibration.record_sample("0x01", {FEATURE: False}, ["provider"])
    question = calibration.find_undecided_error()
    calibration.record_sample("0x01", {FEATURE: True})

    assert question is not None
    assert (question.block_hash, question.unanswered_providers) == ("0x01", ("provider",))
    assert calibration.find_undecided_error() is None


@given(outcomes=judged)
def test_proven_feature_is_not_revoked_by_later_samples(outcomes: list[tuple[bool, bool]]):
    calibration = calibrate([True] * REQUIRED_SAMPLES)
    for number, (is_right, is_unheard) in enumerate(outcomes):
        unheard = ["provider"] if is_unheard else []
        calibration.record_sample(f"0x{number + 10**6:064x}", {FEATURE: is_right}, unheard)
        calibration.mark_unsupported_features()

    assert calibration.is_proven(FEATURE)
    assert calibration.find_undecided_error() is None
