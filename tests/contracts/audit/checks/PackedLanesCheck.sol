// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lanes} from "contracts/roots/core/Lanes.sol";
import {PackedLanes} from "contracts/roots/PackedLanes.sol";

/// @title No lane and no round changes in a storage slot of the hot set, for every word
/// @dev As LanesCheck: each check has a sibling `check_refuted_` that must be refuted.
contract PackedLanesCheck {
    function check_pack(uint256 word, uint32 round) external pure {
        if (Lanes.anyTooHigh(word)) return;
        uint256 slot = PackedLanes.pack(word, round);
        assert(PackedLanes.unpack(slot) == word);
        assert(PackedLanes.roundOf(slot) == round);
    }

    function check_refuted_pack_of_any_word(uint256 word, uint32 round) external pure {
        assert(PackedLanes.unpack(PackedLanes.pack(word, round)) == word);
    }

    function check_sameLanes(uint256 word, uint256 other, uint32 round, uint32 otherRound) external pure {
        if (Lanes.anyTooHigh(word) || Lanes.anyTooHigh(other)) return;
        bool same = PackedLanes.sameLanes(PackedLanes.pack(word, round), PackedLanes.pack(other, otherRound));
        assert(same == (word == other));
    }

    function check_refuted_sameLanes_in_one_round(uint256 word, uint256 other, uint32 round, uint32 otherRound)
        external
        pure
    {
        if (Lanes.anyTooHigh(word) || Lanes.anyTooHigh(other)) return;
        bool same = PackedLanes.sameLanes(PackedLanes.pack(word, round), PackedLanes.pack(other, otherRound));
        assert(same == (word == other && round == otherRound));
    }

    /// @dev `index` names any of the sixteen lanes.
    function check_fill(uint256 word, uint256 index) external pure {
        if (Lanes.anyTooHigh(word)) return;
        uint256 lane = Lanes.laneOf(word, index);
        assert(Lanes.laneOf(PackedLanes.fill(word, 5_001), index) == (lane == 0 ? 5_001 : lane));
    }

    function check_refuted_fill_of_closed_lanes(uint256 word, uint256 index) external pure {
        if (Lanes.anyTooHigh(word)) return;
        uint256 lane = Lanes.laneOf(word, index);
        assert(Lanes.laneOf(PackedLanes.fill(word, 5_001), index) == (lane < 2 ? 5_001 : lane));
    }
}
