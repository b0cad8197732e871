// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Adapter} from "./Adapter.sol";

/// @notice All calls of the admin of Crynux's NodeStaking.
interface INodeStaking {
    function unstake(address nodeAddress) external;
    function slashStaking(address nodeAddress) external;
}

/// @title Kick target for Crynux's NodeStaking (crynux-contracts 0c10b81)
/// @notice The adapter is NodeStaking's admin instead of the relay, and forwards the relay's two calls. The writer of
/// the ParameterController hands the role over, and takes it back.
/// @dev Only for a relay that handles NodeUnstaked: any other relay continues to give tasks to a removed node, without
/// a stake (docs/explanation/kickouts.md#adapters).
contract NodeStakingAdapter is Adapter {
    INodeStaking public immutable STAKING;

    /// @notice The relay's key.
    address public operator;

    /// @dev Hash of the revert data of NodeStaking for an address without a stake: Error(string).
    bytes32 private constant NOT_STAKED = keccak256(abi.encodeWithSignature("Error(string)", "Node not staked"));
    uint256 private constant LENGTH_OF_NOT_STAKED = 100;

    event OperatorSet(address indexed who);

    modifier onlyOperator() {
        if (msg.sender != operator) revert NotAllowed(msg.sender);
        _;
    }

    constructor(address oracle, address firstOwner, address staking, address firstOperator)
        Adapter(oracle, firstOwner)
    {
        STAKING = INodeStaking(_hasCode(staking));
        _setOperator(firstOperator);
    }

    /// @notice Sets the relay's key; zero = none.
    function setOperator(address who) external onlyOwner {
        _setOperator(who);
    }

    /// @notice Forwarded: returns a node's stake.
    function unstake(address nodeAddress) external onlyOperator {
        STAKING.unstake(nodeAddress);
    }

    /// @notice Forwarded: takes a node's stake, and its delegators' with it.
    function slashStaking(address nodeAddress) external onlyOperator {
        STAKING.slashStaking(nodeAddress);
    }

    function _setOperator(address who) private {
        operator = who;
        emit OperatorSet(who);
    }

    /// @dev getStakingInfo has had four layouts under one selector, so `unstake` is called without it. Its revert data
    /// is passed on, but never more than an Error of one word: the stake's receiver may have written a megabyte.
    function _kick(address node) internal override {
        bytes memory input = abi.encodeCall(INodeStaking.unstake, (node));
        address to = address(STAKING);
        bytes memory reason = new bytes(LENGTH_OF_NOT_STAKED);
        bool done;
        uint256 length;
        assembly ("memory-safe") {
            done := call(gas(), to, 0, add(input, 32), mload(input), 0, 0)
            length := returndatasize()
            if gt(length, LENGTH_OF_NOT_STAKED) { length := LENGTH_OF_NOT_STAKED }
            returndatacopy(add(reason, 32), 0, length)
        }
        if (done || (length == LENGTH_OF_NOT_STAKED && keccak256(reason) == NOT_STAKED)) return;
        assembly ("memory-safe") {
            revert(add(reason, 32), length)
        }
    }
}
