// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lanes} from "../oracle/Lanes.sol";

/// @title Batch access to the lane checks, for tests
contract LanesProbe {
    /// @return found bits for each word: 1 too high, 2 erased, 8 beyond the node count. Bit 2 only if bit 1 is not set.
    function faults(uint256[] calldata previous, uint256[] calldata words, uint256[] calldata counts)
        external
        pure
        returns (uint256[] memory found)
    {
        found = new uint256[](words.length);
        for (uint256 i; i < words.length; ++i) {
            if (Lanes.anyBeyond(words[i], 16, counts[i])) found[i] |= 8;
            if (Lanes.anyTooHigh(words[i])) found[i] |= 1;
            else if (Lanes.anyErased(previous[i], words[i])) found[i] |= 2;
        }
    }

    /// @notice All words of both lists have passed anyTooHigh.
    /// @return fallen number of lanes that fall from one list to the other, by more than `step` or closed
    /// @return gained number of open lanes in `words`, plus closed lanes in `previous`
    function counted(uint256[] calldata previous, uint256[] calldata words, uint256 step)
        external
        pure
        returns (uint256 fallen, uint256 gained)
    {
        for (uint256 i; i < words.length; ++i) {
            fallen += Lanes.falls(previous[i], words[i], Lanes.inEvery(step)) >> Lanes.TOP_BIT;
            gained += (Lanes.open(words[i]) >> Lanes.TOP_BIT) + (Lanes.shut(previous[i]) >> Lanes.TOP_BIT);
        }
        return (Lanes.total(fallen), Lanes.total(gained));
    }
}
