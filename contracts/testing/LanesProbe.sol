// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lanes} from "../oracle/Lanes.sol";

/// @title Lets a test ask the packed checks about many words in one call
contract LanesProbe {
    /// @return found a bit each: 1 too high, 2 erased, 4 step over, 8 beyond the node count. Bits 2 and 4 only where
    /// bit 1 is not set.
    function faults(uint256[] calldata previous, uint256[] calldata words, uint256[] calldata steps, uint256[] calldata counts)
        external
        pure
        returns (uint256[] memory found)
    {
        found = new uint256[](words.length);
        for (uint256 i; i < words.length; ++i) {
            found[i] = _faultsOf(previous[i], words[i], steps[i], counts[i]);
        }
    }

    function _faultsOf(uint256 previous, uint256 word, uint256 step, uint256 count) private pure returns (uint256 bits) {
        if (Lanes.anyBeyond(word, 16, count)) bits |= 8;
        if (Lanes.anyTooHigh(word)) return bits | 1;
        if (Lanes.anyErased(previous, word)) bits |= 2;
        if (Lanes.anyStepOver(previous, word, step)) bits |= 4;
    }
}
