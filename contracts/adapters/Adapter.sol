// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IKickTarget} from "../IKickTarget.sol";

/// @title A kick target in front of a network that knows nothing of the oracle
/// @notice Holds the one role of the network by which a node can be put out. The oracle alone has it put out a node;
/// of all else that the role allows, an adapter passes on what it names, for its owner (the network's own multisig), and
/// nothing more: it has no call of anybody's choice.
/// @dev The oracle is fixed: another oracle is another adapter (docs/explanation/kickouts.md#adapters).
abstract contract Adapter is IKickTarget {
    /// @notice The only caller of `kick`.
    address public immutable ORACLE;

    /// @notice Who had the role before, and takes it back.
    address public owner;

    /// @notice Whom the owner offered its place; owner by accepting it.
    address public pendingOwner;

    event OwnerOffered(address indexed to);
    event OwnerSet(address indexed who);

    /// @notice The caller has not that part.
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

    /// @notice Offers the owner's place to `to`, who must accept it; zero withdraws the offer.
    function transferOwnership(address to) external onlyOwner {
        pendingOwner = to;
        emit OwnerOffered(to);
    }

    /// @notice Takes the owner's place that was offered to the caller.
    function acceptOwnership() external {
        if (msg.sender != pendingOwner) revert NotAllowed(msg.sender);
        owner = msg.sender;
        pendingOwner = address(0);
        emit OwnerSet(msg.sender);
    }

    /// @dev As IKickTarget.kick asks: quiet where the node is out, revert where it cannot be put out now.
    function _kick(address node) internal virtual;

    function _hasCode(address place) internal view returns (address) {
        if (place.code.length == 0) revert NoCode(place);
        return place;
    }
}
