// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IKickTarget} from "../IKickTarget.sol";

/// @title Base of kick targets for networks that were not built for the oracle
/// @notice Holds the one role of the network that can remove a node. Only the oracle may call `kick`. Of the role's
/// other calls the adapter forwards a fixed list, for its owner (the network's own multisig) or operator.
/// @dev The oracle is immutable: another oracle needs another adapter (docs/explanation/kickouts.md#adapters).
abstract contract Adapter is IKickTarget {
    /// @notice The only caller of `kick`.
    address public immutable ORACLE;

    /// @notice Previous holder of the role, which may take it back.
    address public owner;

    /// @notice Address to which the owner offered ownership; becomes owner by accepting it.
    address public pendingOwner;

    event OwnerOffered(address indexed to);
    event OwnerSet(address indexed who);

    /// @notice The caller does not have the role that this call requires.
    error NotAllowed(address caller);
    error ZeroAddress();
    /// @notice There is no contract at that address.
    error NoCode(address place);

    modifier onlyOwner() {
        if (msg.sender != owner) revert NotAllowed(msg.sender);
        _;
    }

    constructor(address oracle, address firstOwner) {
        if (oracle == address(0) || firstOwner == address(0)) revert ZeroAddress();
        ORACLE = oracle;
        owner = firstOwner;
        emit OwnerSet(firstOwner);
    }

    /// @inheritdoc IKickTarget
    function kick(address node, bytes32) external {
        if (msg.sender != ORACLE) revert NotAllowed(msg.sender);
        _kick(node);
    }

    /// @notice Offers ownership to `to`, which must accept it; zero withdraws the offer.
    function transferOwnership(address to) external onlyOwner {
        pendingOwner = to;
        emit OwnerOffered(to);
    }

    /// @notice Accepts the ownership that was offered to the caller.
    function acceptOwnership() external {
        if (msg.sender != pendingOwner) revert NotAllowed(msg.sender);
        owner = msg.sender;
        pendingOwner = address(0);
        emit OwnerSet(msg.sender);
    }

    /// @dev Follows IKickTarget.kick: returns if the node is not a member, reverts if it cannot be removed now.
    function _kick(address node) internal virtual;

    function _hasCode(address place) internal view returns (address) {
        if (place.code.length == 0) revert NoCode(place);
        return place;
    }
}
