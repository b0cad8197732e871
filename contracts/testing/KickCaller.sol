// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IKickTarget} from "../IKickTarget.sol";

/// @title Caller of a kick target with the oracle's method: fixed gas, no output, one word of the reason
/// @notice Only for tests of targets.
contract KickCaller {
    event Kicked(address indexed node);
    event Refused(address indexed node, bytes32 reason);

    /// @param gasGiven gas for the target
    function kick(address target, address node, bytes32 evidence, uint256 gasGiven) external {
        bytes memory input = abi.encodeCall(IKickTarget.kick, (node, evidence));
        bytes32 reason;
        bool done;
        assembly ("memory-safe") {
            done := call(gasGiven, target, 0, add(input, 32), mload(input), 0, 0)
            if iszero(done) {
                let length := returndatasize()
                if gt(length, 32) { length := 32 }
                mstore(0, 0)
                returndatacopy(0, 0, length)
                reason := mload(0)
            }
        }
        if (done) emit Kicked(node);
        else emit Refused(node, reason);
    }
}
