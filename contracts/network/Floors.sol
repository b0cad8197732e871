// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Administration} from "./Administration.sol";

/// @title Minimum fee and minimum timeout of a task
/// @notice Without these minimums, any account could order tasks that no node can complete in time, for the price of gas,
/// and so have honest nodes excluded. The minimum fee of a task is also its toll, which its creator loses at a timeout.
abstract contract Floors is Administration {
    /// @notice The floors of a kind; a change applies to tasks created from now on.
    /// @param baseFee gwei for any task
    /// @param unitFee gwei for each unit of its size: the value of a second of the machine
    /// @param baseSeconds seconds for any task, at least 1
    /// @param unitSeconds seconds for each unit of its size
    struct Floor {
        uint96 baseFee;
        uint96 unitFee;
        uint24 baseSeconds;
        uint16 unitSeconds;
    }

    uint8 internal constant LAST_KIND = 2;

    /// @dev The widths of Floor's fields, for _returnFields.
    bytes32 private immutable FLOOR_FIELDS = bytes32(bytes4(hex"0c0c0302"));

    mapping(uint8 kind => Floor) private _floors;

    /// @notice `floor` applies to tasks of this kind from now on.
    event FloorSet(uint8 indexed kind, Floor floor);

    /// @notice The floor has no fee, or no baseSeconds.
    error BadFloor();

    /// @notice The kind is not one of TaskCreated's.
    error BadKind(uint8 kind);

    constructor(Floor memory floor) {
        for (uint8 kind = 0; kind <= LAST_KIND; ++kind) {
            _setFloor(kind, floor);
        }
    }

    /// @notice Changes a kind's floors.
    function setFloor(uint8 kind, Floor calldata floor) external onlyAdmin {
        if (kind > LAST_KIND) revert BadKind(kind);
        _setFloor(kind, floor);
    }

    /// @notice Returns a kind's floors.
    function floorOf(uint8 kind) external view returns (Floor calldata found) {
        Floor storage kept = _floors[kind];
        uint256 slot;
        // Never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := kept.slot
            found := 0
        }
        _returnFields(slot, FLOOR_FIELDS);
    }

    /// @notice Returns the minimum fee of a task of this kind and size, wei.
    function leastFee(uint8 kind, uint32 size) public view returns (uint256) {
        Floor storage floor = _floors[kind];
        return (floor.baseFee + uint256(floor.unitFee) * size) * 1 gwei;
    }

    /// @notice Returns the minimum timeout of a task of this kind and size, seconds.
    function leastTimeout(uint8 kind, uint32 size) public view returns (uint256) {
        Floor storage floor = _floors[kind];
        return floor.baseSeconds + uint256(floor.unitSeconds) * size;
    }

    function _setFloor(uint8 kind, Floor memory floor) private {
        if (floor.baseFee == 0 && floor.unitFee == 0) revert BadFloor();
        if (floor.baseSeconds == 0) revert BadFloor();
        _floors[kind] = floor;
        emit FloorSet(kind, floor);
    }
}
