// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Packing of sixteen scores in a word
/// @notice A word holds 16 lanes of 16 bits; lane k is at bit 16 * k. A lane: 0 = no node, 1 = do not
/// select, 2 to 10002 = QoS + 2.
/// @dev One subtraction checks all sixteen lanes. A lane is at most 10002 < 0x8000, so its top bit is free. With the
/// top bit set before the subtraction no lane borrows from its neighbour; the remaining top bit is the lane's result.
library Lanes {
    /// @notice Value of a lane that must not be selected.
    uint256 internal constant DO_NOT_SELECT = 1;

    /// @notice Lane of a QoS of 0; lane - ZERO_QOS is the QoS.
    uint256 internal constant ZERO_QOS = 2;

    /// @notice The best QoS, 1.0.
    uint256 internal constant MAX_QOS = 10_000;

    /// @notice Position of a lane's top bit within the lane.
    uint256 internal constant TOP_BIT = 15;

    /// @dev 1 in every lane.
    uint256 private constant ONES = 0x0001000100010001000100010001000100010001000100010001000100010001;

    /// @dev The top bit of every lane.
    uint256 private constant TOPS = ONES << TOP_BIT;

    /// @dev The maximum lane, in every lane, below a set top bit.
    uint256 private constant CEILING = TOPS | ((MAX_QOS + ZERO_QOS) * ONES);

    /// @notice Returns the lane of `index` in its word.
    function laneOf(uint256 word, uint256 index) internal pure returns (uint16) {
        return uint16(word >> ((index & 15) << 4));
    }

    /// @notice Returns whether a lane is greater than 10002.
    function anyTooHigh(uint256 word) internal pure returns (bool) {
        unchecked {
            return word & TOPS != 0 || (CEILING - word) & TOPS != TOPS;
        }
    }

    /// @notice Returns the top bit of every lane that may be selected: 2 and more. The word has passed anyTooHigh.
    function open(uint256 word) internal pure returns (uint256) {
        unchecked {
            return ((word | TOPS) - ZERO_QOS * ONES) & TOPS;
        }
    }

    /// @notice Returns the top bit of every other lane: 0 and 1. The word has passed anyTooHigh.
    function shut(uint256 word) internal pure returns (uint256) {
        return _lanesBelow(word, ZERO_QOS * ONES);
    }

    /// @notice Returns the top bit of every lane that falls: it is closed, or drops by more than the step in `steps`.
    /// Both words have passed anyTooHigh; `steps` is inEvery of a step of at most 10000.
    function falls(uint256 previous, uint256 word, uint256 steps) internal pure returns (uint256) {
        unchecked {
            uint256 bigFalls = ~(((word + steps) | TOPS) - previous) & TOPS;
            return bigFalls | (open(previous) & shut(word));
        }
    }

    /// @notice Returns a word with a small number in every lane.
    function inEvery(uint256 value) internal pure returns (uint256) {
        unchecked {
            return value * ONES;
        }
    }

    /// @notice Returns the number of top bits in `sum`, a lane-wise sum of words that were each shifted right by
    /// TOP_BIT. The multiplication adds all lanes in the highest lane; it is exact below 65536.
    function total(uint256 sum) internal pure returns (uint256) {
        unchecked {
            return (sum * ONES) >> 240;
        }
    }

    /// @dev Returns the top bit of every lane that is below `bound`'s lane. All lanes < 0x8000.
    function _lanesBelow(uint256 word, uint256 bound) private pure returns (uint256) {
        unchecked {
            return ~((word | TOPS) - bound) & TOPS;
        }
    }
}
