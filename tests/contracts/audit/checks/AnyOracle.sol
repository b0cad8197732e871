// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {KickCounts} from "contracts/oracle/KickCounts.sol";
import {Kickouts} from "contracts/oracle/Kickouts.sol";
import {Limits} from "contracts/oracle/Limits.sol";
import {OracleHead} from "contracts/oracle/OracleHead.sol";
import {Roles} from "contracts/oracle/Roles.sol";
import {SignerQuorum} from "contracts/oracle/SignerQuorum.sol";

/// @title Where the checks begin: limits that let everything through, three signers of whom two must sign
abstract contract AnyHead is OracleHead {
    constructor() OracleHead(false, _loosest(), _loosest()) {}

    function _loosest() private pure returns (Limits memory) {
        return Limits(2_047, type(uint16).max, 0, 2, 30 days, 10_000, 0, 0, type(uint24).max, 255, 0, 10_000, 10_000);
    }
}

/// @dev The pauser is the contract itself.
abstract contract AnyRoles is AnyHead, Roles {
    constructor() Roles(address(0xdead), address(this), address(0xdead)) {}
}

abstract contract AnyQuorum is AnyHead, SignerQuorum {
    constructor() SignerQuorum(_three(), 2, bytes32(uint256(1))) {}

    function _three() private pure returns (address[] memory three) {
        three = new address[](3);
        (three[0], three[1], three[2]) = (address(11), address(22), address(33));
    }
}

/// @title An oracle that can be put into any state: what a check says of it, it says of all
abstract contract AnyOracle is AnyRoles, AnyQuorum, Kickouts {
    constructor() KickCounts(KickLimits(50_000, type(uint40).max, 1, 0, 1)) Kickouts(address(0), new address[](0)) {}

    /// @dev A node with any slot, under any head and limits, with any lanes beside its own.
    function _be(address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes) internal {
        _head = now_;
        _limits = limits_;
        _nodes[node] = held;
        if (held.indexPlusOne != 0) _words[(uint256(held.indexPlusOne) - 1) >> 4] = lanes;
    }

    /// @dev Its node's lane.
    function _laneIn(uint256 lanes, Node calldata held) internal pure returns (uint256) {
        return (lanes >> (16 * ((uint256(held.indexPlusOne) - 1) % 16))) % 2 ** 16;
    }
}
