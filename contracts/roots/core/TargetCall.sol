// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IKickTarget} from "../../IKickTarget.sol";

/// @title Bounded call to an untrusted kick target
/// @notice The target gets a fixed amount of gas: not more (it could burn the caller's) and not less (the caller could
/// starve it and so make it refuse). Its return data is not copied, of its revert data 32 bytes are.
library TargetCall {
    /// @dev Gas for the call itself, and for recording a refusal after it.
    uint256 private constant AFTERWARDS = 40_000;

    /// @notice Reason of the refusal if the target has no code: a call to such an address would succeed.
    bytes32 internal constant NO_CODE = "no code";

    /// @notice The transaction's gas is too low to give the target `kickGas`.
    error NotEnoughGas(uint256 kickGas);

    /// @notice Calls `target.kick(node, evidence)` with exactly `kickGas` gas.
    /// @return done whether the call did not revert
    /// @return reason the first 32 bytes of its revert data, padded with zeros
    function kick(address target, address node, bytes32 evidence, uint256 kickGas)
        internal
        returns (bool done, bytes32 reason)
    {
        if (target.code.length == 0) return (false, NO_CODE);
        bytes memory input = abi.encodeCall(IKickTarget.kick, (node, evidence));
        // EIP-150: a call gets at most 63/64 of the remaining gas.
        if (gasleft() * 63 / 64 < kickGas + AFTERWARDS) revert NotEnoughGas(kickGas);
        assembly ("memory-safe") {
            done := call(kickGas, target, 0, add(input, 32), mload(input), 0, 0)
            if iszero(done) {
                let size := returndatasize()
                if gt(size, 32) { size := 32 }
                mstore(0, 0)
                returndatacopy(0, 0, size)
                reason := mload(0)
            }
        }
    }
}
