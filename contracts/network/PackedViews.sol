// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title Getters of packed structs
/// @notice Solidity's own getter of a packed struct takes five hundred bytes of code or more; with three such getters
/// the network would exceed the code limit of 24,576 bytes (EIP-170).
abstract contract PackedViews {
    /// @dev Ends the call: returns the fields of the struct at `slot`, one word each, as the ABI encodes a struct of
    /// static fields.
    /// @param fields a byte for each field in the struct's order: its width in bytes, and 0x80 if it begins the next
    /// slot; 0 ends the list. A test compares them with the compiler's layout. The callers store them as immutables,
    /// because the compiler copies this function for each constant argument.
    function _returnFields(uint256 slot, bytes32 fields) internal view {
        assembly ("memory-safe") {
            let start := mload(0x40)
            let end := start
            let word := sload(slot)
            for {} 1 {} {
                let field := byte(0, fields)
                if iszero(field) { break }
                if gt(field, 0x7f) {
                    slot := add(slot, 1)
                    word := sload(slot)
                }
                let bits := shl(3, and(field, 0x3f))
                // For a field of 32 bytes, shl returns 0, and 0 - 1 is all ones.
                mstore(end, and(word, sub(shl(bits, 1), 1)))
                word := shr(bits, word)
                end := add(end, 32)
                fields := shl(8, fields)
            }
            return(start, sub(end, start))
        }
    }
}
