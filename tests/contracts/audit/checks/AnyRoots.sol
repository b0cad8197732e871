// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {NodeLeaf} from "contracts/roots/QoSProof.sol";
import {KickoutLimits} from "contracts/roots/core/KickoutLimits.sol";
import {KickoutsByProof} from "contracts/roots/core/KickoutsByProof.sol";
import {OracleRoles} from "contracts/roots/core/OracleRoles.sol";
import {ReportSigners} from "contracts/roots/core/ReportSigners.sol";
import {RoundHead} from "contracts/roots/core/RoundHead.sol";
import {Limits} from "contracts/roots/core/RoundLimits.sol";

/// @title An oracle of roots that can be put into any state, with three signers of whom two must sign
abstract contract AnyRoots is KickoutsByProof {
    /// @dev A symbolic round could be kept at any place of the ring; so the last round is this one.
    uint32 internal constant LAST = 5;

    constructor()
        RoundHead(false, 4, 2, _loosest(), _loosest(), _loosest())
        ReportSigners(_three(), 2, bytes32(uint256(1)))
        OracleRoles(address(0xdead), address(this), address(0xbeef))
        KickoutLimits(_kickLimitsOfChecks(), _kickLimitsOfChecks())
        KickoutsByProof(address(0), new address[](0))
    {}

    /// @dev The node's slot, the head, the limits and the last root are any.
    function _put(address node, NodeKick calldata kick, Head calldata now_, Limits calldata limits_, bytes32 root)
        internal
    {
        _head = now_;
        _head.round = LAST;
        _limits = limits_;
        _kicks[node] = kick;
        _keepRoot(LAST, root);
    }

    function _loosest() private pure returns (Limits memory) {
        return Limits(0, 2, 30 days, 10_000, 0, 0, 0);
    }

    function _kickLimitsOfChecks() private pure returns (KickLimits memory) {
        return KickLimits(50_000, type(uint40).max, 1, 0, 1);
    }

    function _three() private pure returns (address[] memory three) {
        three = new address[](3);
        (three[0], three[1], three[2]) = (address(11), address(22), address(33));
    }
}
