// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CrynuxStaking} from "./CrynuxStaking.sol";

/// @title Stand-in for Crynux's ParameterController: its writer, set by the owner, sets the admin of CrynuxStaking
/// @notice Only for tests. Selectors, events, texts and roles of the functions here are those of Crynux's.
contract CrynuxParameters {
    CrynuxStaking private immutable _staking;
    address public owner;
    address private _writer;

    event WriterUpdated(address indexed writerAddress);
    event NodeStakingAdminAddressUpdated(address indexed adminAddress);

    error OwnableUnauthorizedAccount(address account);

    constructor(CrynuxStaking staking, address writer) {
        require(writer != address(0), "writer is zero");
        (owner, _staking, _writer) = (msg.sender, staking, writer);
    }

    function setWriter(address writerAddress) external {
        if (msg.sender != owner) revert OwnableUnauthorizedAccount(msg.sender);
        require(writerAddress != address(0), "writer is zero");
        _writer = writerAddress;
        emit WriterUpdated(writerAddress);
    }

    function setNodeStakingAdminAddress(address addr) external {
        require(msg.sender == _writer, "Not called by writer");
        _staking.setAdminAddress(addr);
        emit NodeStakingAdminAddressUpdated(addr);
    }
}
