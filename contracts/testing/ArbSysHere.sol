// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IArbSys} from "../roots/core/AsOfBlock.sol";

/// @title Test double of ArbSys that returns the test chain's own blocks
/// @notice At address 100. A daemon that reads numbers and hashes from the endpoint agrees with it, as on Arbitrum.
contract ArbSysHere is IArbSys {
    uint256 private constant WINDOW = 256;

    error InvalidBlockNumber(uint256 requested, uint256 current);

    function arbBlockNumber() public view returns (uint256) {
        return block.number;
    }

    function arbBlockHash(uint256 number) external view returns (bytes32) {
        uint256 current = arbBlockNumber();
        if (number >= current || number + WINDOW < current) revert InvalidBlockNumber(number, current);
        return blockhash(number);
    }
}
