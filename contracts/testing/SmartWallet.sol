// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A contract as a node, for tests: it accepts the signatures of one key, in one of several ways
contract SmartWallet {
    enum Way {
        ACCEPT,
        SHORT,
        REVERT,
        BURN
    }

    address public immutable KEY;
    Way public way;

    error Refused();

    constructor(address key) {
        KEY = key;
    }

    function setWay(Way wanted) external {
        way = wanted;
    }

    /// @notice ERC-1271: accepts any `signature` that KEY made of `digest`.
    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (way == Way.REVERT) revert Refused();
        if (way == Way.BURN) {
            while (true) {}
        }
        if (way == Way.SHORT) {
            // The right four bytes, but not a whole word.
            assembly ("memory-safe") {
                mstore(0, 0x1626ba7e00000000000000000000000000000000000000000000000000000000)
                return(0, 4)
            }
        }
        bytes32 r = bytes32(signature[:32]);
        bytes32 s = bytes32(signature[32:64]);
        return ecrecover(digest, uint8(signature[64]), r, s) == KEY ? this.isValidSignature.selector : bytes4(0);
    }
}
