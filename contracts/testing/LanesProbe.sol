// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lanes} from "../oracle/Lanes.sol";

/// @title Lets a test ask the packed checks about many words in one call
contract LanesProbe {
    /// @return found a bit each: 1 too high, 2 erased, 8 beyond the node count. Bit 2 only where bit 1 is not set.
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

    /// @notice Both lists have passed anyTooHigh.
    /// @return fallen how many lanes fall from one to the other, by more than `step` or closed
    /// @return gained how many lanes of `words` are open, and how many of `previous` are not
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
