// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Sixteen scores in one word
/// @notice A word holds 16 lanes of 16 bits; lane k is at bit 16 * k. A lane: 0 = no report yet, 1 = do not select,
/// 2 to 10002 = QoS + 2.
/// @dev All sixteen lanes are checked by one subtraction. A lane never passes 10002 < 0x8000, so its top bit is free:
/// set it before the subtraction and no lane borrows from its neighbour; what is left of it is the lane's answer.
library Lanes {
    /// @notice Value of a lane that says "do not select".
    uint256 internal constant DO_NOT_SELECT = 1;

    /// @notice Lane of a QoS of 0; lane - ZERO_QOS is the QoS.
    uint256 internal constant ZERO_QOS = 2;

    /// @notice The best QoS, 1.0.
    uint256 internal constant MAX_QOS = 10_000;

    /// @dev 1 in every lane.
    uint256 private constant ONES = 0x0001000100010001000100010001000100010001000100010001000100010001;

    /// @dev The top bit of every lane.
    uint256 private constant TOPS = ONES << 15;

    /// @dev The greatest lane, in every lane, below a set top bit.
    uint256 private constant CEILING = TOPS | ((MAX_QOS + ZERO_QOS) * ONES);

    /// @notice The lane of `index` in its word.
    function laneOf(uint256 word, uint256 index) internal pure returns (uint16) {
        return uint16(word >> ((index & 15) << 4));
    }

    /// @notice Some lane is greater than 10002.
    function anyTooHigh(uint256 word) internal pure returns (bool) {
        unchecked {
            return word & TOPS != 0 || (CEILING - word) & TOPS != TOPS;
        }
    }

    /// @notice Some lane that held a value becomes 0 again. Both words have passed anyTooHigh.
    function anyErased(uint256 previous, uint256 word) internal pure returns (bool) {
        return _below(word, ONES) & ~_below(previous, ONES) != 0;
    }

    /// @notice Some QoS moves by more than `maxStep`. Both words have passed anyTooHigh; maxStep <= 10000.
    /// @dev A lane that holds no QoS before or after (0 or 1) takes no step: a first score, an exclusion and a return
    /// from one are never held back.
    function anyStepOver(uint256 previous, uint256 word, uint256 maxStep) internal pure returns (bool) {
        unchecked {
            uint256 step = maxStep * ONES;
            uint256 within = ((previous + step) | TOPS) - word;
            within &= ((word + step) | TOPS) - previous;
            uint256 noStep = _below(previous, ZERO_QOS * ONES) | _below(word, ZERO_QOS * ONES);
            return (within | noStep) & TOPS != TOPS;
        }
    }

    /// @notice Some lane at or past `nodeCount` is written. `first` is the index of the word's first lane.
    function anyBeyond(uint256 word, uint256 first, uint256 nodeCount) internal pure returns (bool) {
        if (first >= nodeCount) return true;
        unchecked {
            uint256 assigned = nodeCount - first;
            return assigned < 16 && word >> (assigned << 4) != 0;
        }
    }

    /// @dev The top bit of every lane that is below `bound`'s lane. All lanes < 0x8000.
    function _below(uint256 word, uint256 bound) private pure returns (uint256) {
        unchecked {
            return ~((word | TOPS) - bound) & TOPS;
        }
    }
}
