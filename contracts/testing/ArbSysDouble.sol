// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IArbSys} from "../roots/core/AsOfBlock.sol";

/// @title Test double of ArbSys, at address 100 of a test chain
/// @notice Its blocks are numbered from 1,000,000 so that they cannot be confused with block.number.
contract ArbSysDouble is IArbSys {
    uint256 private constant OFFSET = 1_000_000;
    uint256 private constant WINDOW = 256;

    error InvalidBlockNumber(uint256 requested, uint256 current);

    function arbBlockNumber() public view returns (uint256) {
        return block.number + OFFSET;
    }

    function arbBlockHash(uint256 number) external view returns (bytes32) {
        uint256 current = arbBlockNumber();
        if (number >= current || number + WINDOW < current) revert InvalidBlockNumber(number, current);
        return keccak256(abi.encode("arbitrum", number));
    }
}
