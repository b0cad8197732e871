// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Members} from "./Members.sol";

/// @title Download requests for models
/// @notice The dispatcher emits a request; the node's software follows the event and reports the model by addModel. A
/// request is not binding, and the contract does not record which models a node has. So a late request does no harm. A
/// repeated request is rejected.
abstract contract Downloads is Members {
    /// @notice Seconds in which the same request is not repeated.
    uint256 public constant DOWNLOAD_TIME = 30 minutes;

    /// @dev End of the last request to the node for the model, unix seconds; models by the hash of their name.
    mapping(address node => mapping(bytes32 model => uint256)) private _askedUntil;

    /// @notice The node already has a request for the model, until `until`.
    error AlreadyAsked(address node, string model, uint256 until);

    /// @notice Requests a member to download a model.
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
