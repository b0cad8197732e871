// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IKickTarget} from "../IKickTarget.sol";

/// @title Network with members only, to test the oracle
contract PlainNetwork is IKickTarget {
    address public oracle;
    uint256 public activeCount;
    mapping(address => bool) public isMember;

    /// @notice Whether `kick` reverts.
    bool public refuses;

    event KickedOut(address indexed node, bytes32 evidence);

    error NotTheOracle(address caller);
    error Refused();

    function setOracle(address to) external {
        oracle = to;
    }

    function setRefuses(bool to) external {
        refuses = to;
    }

    function join(address node) external {
        _join(node);
    }

    /// @notice Joins `count` nodes with addresses first, first + 1, ...
    function joinMany(uint160 first, uint160 count) external {
        for (uint160 i; i < count; ++i) {
            _join(address(first + i));
        }
    }

    function quit(address node) external {
        _end(node);
    }

    /// @inheritdoc IKickTarget
    function kick(address node, bytes32 evidence) external {
        if (msg.sender != oracle) revert NotTheOracle(msg.sender);
        if (refuses) revert Refused();
        if (!isMember[node]) return;
        _end(node);
        emit KickedOut(node, evidence);
    }

    /// @notice Calls `target` from this contract and passes its revert data on.
    function forward(address target, bytes calldata input) external {
        (bool done, bytes memory answer) = target.call(input);
        if (!done) {
            assembly ("memory-safe") {
                revert(add(answer, 32), mload(answer))
            }
        }
    }

    function _join(address node) private {
        isMember[node] = true;
        ++activeCount;
    }

    function _end(address node) private {
        isMember[node] = false;
        --activeCount;
    }
}
