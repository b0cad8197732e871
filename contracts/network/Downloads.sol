// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Members} from "./Members.sol";

/// @title Who is asked to download a model
/// @notice The dispatcher asks, the node's software follows the event, and answers by addModel. Nobody has to: what a
/// node has on its disk is its own affair, and it is nowhere kept here. So a request that comes too late does no harm,
/// and one for a model that is asked for already is refused.
abstract contract Downloads is Members {
    /// @notice Seconds in which nobody is asked for the same model again.
    uint256 public constant DOWNLOAD_TIME = 30 minutes;

    /// @dev Until when the node is not asked for the model again, unix seconds; models by the hash of their name.
    mapping(address node => mapping(bytes32 model => uint256)) private _askedUntil;

    /// @notice The node is asked for the model already, until `until`.
    error AlreadyAsked(address node, string model, uint256 until);

    /// @notice Asks a member to download a model.
    function requestDownload(address account, string calldata model) external onlyDispatcher {
        _member(account);
        _checkName(model);
        bytes32 name = keccak256(bytes(model));
        uint256 until = _askedUntil[account][name];
        if (block.timestamp < until) revert AlreadyAsked(account, model, until);
        until = block.timestamp + DOWNLOAD_TIME;
        _askedUntil[account][name] = until;
        emit DownloadRequested(account, model, until);
    }
}
