// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Sixteen scores in one word
/// @notice A word holds 16 lanes of 16 bits; lane k is at bit 16 * k. A lane: 0 = index not given, 1 = do not select,
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

    /// @notice Place of a lane's top bit in it.
    uint256 internal constant TOP_BIT = 15;

    /// @dev 1 in every lane.
    uint256 private constant ONES = 0x0001000100010001000100010001000100010001000100010001000100010001;

    /// @dev The top bit of every lane.
    uint256 private constant TOPS = ONES << TOP_BIT;

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

    /// @notice The top bit of every lane that may be selected: 2 and more. The word has passed anyTooHigh.
    function open(uint256 word) internal pure returns (uint256) {
        unchecked {
            return ((word | TOPS) - ZERO_QOS * ONES) & TOPS;
        }
    }

    /// @notice The top bit of every other lane: 0 and 1. The word has passed anyTooHigh.
    function shut(uint256 word) internal pure returns (uint256) {
        return _below(word, ZERO_QOS * ONES);
    }

    /// @notice The top bit of every lane that falls: it is closed, or sinks by more than the step in `steps`. Both words
    /// have passed anyTooHigh; `steps` is inEvery of a step of at most 10000.
    function falls(uint256 previous, uint256 word, uint256 steps) internal pure returns (uint256) {
        unchecked {
            uint256 bigFalls = ~(((word + steps) | TOPS) - previous) & TOPS;
            return bigFalls | (open(previous) & shut(word));
        }
    }

    /// @notice A small number in every lane.
    function inEvery(uint256 value) internal pure returns (uint256) {
        unchecked {
            return value * ONES;
        }
    }

    /// @notice How many top bits were added up in `sum`, lane by lane, each word shifted to the right by TOP_BIT. The
    /// multiplication adds all lanes in the highest one; it is exact below 65536.
    function total(uint256 sum) internal pure returns (uint256) {
        unchecked {
            return (sum * ONES) >> 240;
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
