// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lanes} from "contracts/roots/core/Lanes.sol";

/// @title For every word, arithmetic on sixteen lanes at once gives the same result as a check of each lane
/// @dev A check holds for all arguments, or Halmos shows a counterexample. Its sibling `check_refuted_`
/// claims slightly less or more than is true and must be refuted, because a vacuous check would pass as well.
/// Conditions in loops use helpers of one instruction: `&&`, `||` and `?:` would fork the path at
/// each lane.
contract LanesCheck {
    uint256 private constant MAX_STEP = 10_000;

    function check_anyTooHigh(uint256 word) external pure {
        assert(Lanes.anyTooHigh(word) == _someAbove(word, 10_002));
    }

    function check_refuted_anyTooHigh_one_more(uint256 word) external pure {
        assert(Lanes.anyTooHigh(word) == _someAbove(word, 10_003));
    }

    function check_open(uint256 word) external pure {
        if (Lanes.anyTooHigh(word)) return;
        assert(Lanes.open(word) == _openFrom(word, 2));
    }

    function check_refuted_open_from_a_score_of_one(uint256 word) external pure {
        if (Lanes.anyTooHigh(word)) return;
        assert(Lanes.open(word) == _openFrom(word, 3));
    }

    function check_falls(uint256 previous, uint256 word, uint256 step) external pure {
        if (Lanes.anyTooHigh(previous) || Lanes.anyTooHigh(word) || step > MAX_STEP) return;
        assert(Lanes.falls(previous, word, Lanes.inEvery(step)) == _fallen(previous, word, step));
    }

    function check_refuted_falls_by_one_more(uint256 previous, uint256 word, uint256 step) external pure {
        if (Lanes.anyTooHigh(previous) || Lanes.anyTooHigh(word) || step >= MAX_STEP) return;
        assert(Lanes.falls(previous, word, Lanes.inEvery(step)) == _fallen(previous, word, step + 1));
    }

    /// @dev Twice the sum of one word: a round counts sums over words.
    function check_total(uint256 word) external pure {
        if (Lanes.anyTooHigh(word)) return;
        uint256 tops = Lanes.open(word) >> Lanes.TOP_BIT;
        assert(Lanes.total(tops) == _countOpen(word, 16));
        assert(Lanes.total(tops + tops) == 2 * _countOpen(word, 16));
    }

    function check_refuted_total_without_the_last_lane(uint256 word) external pure {
        if (Lanes.anyTooHigh(word)) return;
        assert(Lanes.total(Lanes.open(word) >> Lanes.TOP_BIT) == _countOpen(word, 15));
    }

    /// @dev As QoSWords keeps it: what is open now, less what was open before.
    function check_the_count_of_open_lanes_is_kept(uint256 previous, uint256 word, uint24 others) external pure {
        if (Lanes.anyTooHigh(previous) || Lanes.anyTooHigh(word)) return;
        uint256 opened = Lanes.open(word) >> Lanes.TOP_BIT;
        uint256 closed = Lanes.open(previous) >> Lanes.TOP_BIT;
        uint256 kept = others + _countOpen(previous, 16);
        assert(kept + Lanes.total(opened) - Lanes.total(closed) == others + _countOpen(word, 16));
    }

    function check_refuted_the_count_of_open_lanes_never_changes(uint256 previous, uint256 word) external pure {
        if (Lanes.anyTooHigh(previous) || Lanes.anyTooHigh(word)) return;
        assert(_countOpen(previous, 16) == _countOpen(word, 16));
    }

    // --- The same, lane by lane ---

    function _lane(uint256 word, uint256 k) private pure returns (uint256) {
        return (word >> (16 * k)) & 0xffff;
    }

    function _someAbove(uint256 word, uint256 bound) private pure returns (bool) {
        uint256 found;
        for (uint256 k; k < 16; ++k) {
            found |= _gt(_lane(word, k), bound);
        }
        return found != 0;
    }

    function _openFrom(uint256 word, uint256 least) private pure returns (uint256 tops) {
        for (uint256 k; k < 16; ++k) {
            tops |= _gt(_lane(word, k), least - 1) << (16 * k + 15);
        }
    }

    function _fallen(uint256 previous, uint256 word, uint256 step) private pure returns (uint256 tops) {
        for (uint256 k; k < 16; ++k) {
            uint256 before = _lane(previous, k);
            uint256 after_ = _lane(word, k);
            uint256 closed = _gt(before, 1) & _gt(2, after_);
            tops |= (_gt(before, after_ + step) | closed) << (16 * k + 15);
        }
    }

    function _countOpen(uint256 word, uint256 lanes) private pure returns (uint256 count) {
        for (uint256 k; k < lanes; ++k) {
            count += _gt(_lane(word, k), 1);
        }
    }

    function _gt(uint256 a, uint256 b) private pure returns (uint256 answer) {
        assembly ("memory-safe") {
            answer := gt(a, b)
        }
    }
}
