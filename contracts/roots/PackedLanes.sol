// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A word of sixteen lanes and its round in one storage slot
/// @notice A round's tree has words of 16 lanes of 16 bits (Lanes). A lane is at most 10002, so 14 bits hold it: a slot
/// holds 16 lanes of 14 bits, and in the bits above them the round (32 bits) to which they belong.
/// @dev All lanes move at once: each step halves the number of gaps of unused bits and doubles their width.
library PackedLanes {
    /// @dev The lower half of every 2, 4, 8 and 16 lanes of 16 bits.
    uint256 private constant LOW_16 = 0x0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff;
    uint256 private constant LOW_32 = 0x00000000ffffffff00000000ffffffff00000000ffffffff00000000ffffffff;
    uint256 private constant LOW_64 = 0x0000000000000000ffffffffffffffff0000000000000000ffffffffffffffff;
    uint256 private constant LOW_128 = (1 << 128) - 1;

    /// @dev The bits that 1, 2, 4 and 8 lanes of 14 bits use in these halves.
    uint256 private constant LOW_14 = LOW_16 >> 2 & LOW_16;
    uint256 private constant LOW_28 = LOW_32 >> 4 & LOW_32;
    uint256 private constant LOW_56 = LOW_64 >> 8 & LOW_64;
    uint256 private constant LOW_112 = LOW_128 >> 16;

    /// @dev The packed lanes without the round.
    uint256 private constant LANES = (1 << 224) - 1;

    /// @dev 1 in every lane of 16 bits, and its top bit.
    uint256 private constant ONES = 0x0001000100010001000100010001000100010001000100010001000100010001;
    uint256 private constant TOPS = ONES << 15;

    /// @notice Returns the slot of a word. Its lanes have passed Lanes.anyTooHigh.
    function pack(uint256 word, uint32 round) internal pure returns (uint256 slot) {
        unchecked {
            slot = (word & LOW_16) | ((word & ~LOW_16) >> 2);
            slot = (slot & LOW_32) | ((slot & ~LOW_32) >> 4);
            slot = (slot & LOW_64) | ((slot & ~LOW_64) >> 8);
            slot = (slot & LOW_128) | ((slot & ~LOW_128) >> 16);
            slot |= uint256(round) << 224;
        }
    }

    /// @notice Returns the word of a slot: 16 lanes of 16 bits.
    function unpack(uint256 slot) internal pure returns (uint256 word) {
        unchecked {
            word = (slot & LOW_112) | ((slot << 16) & (LOW_112 << 128));
            word = (word & LOW_56) | ((word << 8) & (LOW_56 << 64));
            word = (word & LOW_28) | ((word << 4) & (LOW_28 << 32));
            word = (word & LOW_14) | ((word << 2) & (LOW_14 << 16));
        }
    }

    /// @notice Returns the round of a slot; 0 = the word was never written.
    function roundOf(uint256 slot) internal pure returns (uint32) {
        return uint32(slot >> 224);
    }

    /// @notice Returns whether two slots have the same lanes, whatever their rounds.
    function sameLanes(uint256 slot, uint256 other) internal pure returns (bool) {
        return (slot ^ other) & LANES == 0;
    }

    /// @notice Returns a word in which each lane of 0 is replaced. All lanes are below 0x8000, as is `lane`.
    function fill(uint256 word, uint256 lane) internal pure returns (uint256) {
        unchecked {
            uint256 missing = ~((word | TOPS) - ONES) & TOPS;
            return word | ((missing >> 15) * lane);
        }
    }
}
