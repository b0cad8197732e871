// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Caller that calls from its constructor, when it has no code yet
contract ConstructorCaller {
    constructor(address target, bytes memory input) {
        (bool done, bytes memory answer) = target.call(input);
        if (!done) {
            assembly ("memory-safe") {
                revert(add(answer, 32), mload(answer))
            }
        }
    }
}
