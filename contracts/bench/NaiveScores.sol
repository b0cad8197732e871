// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Baseline for gas measurements: a slot and an event for each node's score
/// @notice QoSOracle is compared with it: one trusted reporter, no signature, no round, no check of any block.
contract NaiveScores {
    address public immutable REPORTER;
    mapping(address => uint256) public scoreOf;

    event ScoreUpdated(address indexed node, uint256 score);

    error NotAllowed(address caller);
    error BadLength(uint256 nodes, uint256 scores);

    constructor(address reporter) {
        REPORTER = reporter;
    }

    function push(address[] calldata nodes, uint256[] calldata scores) external {
        if (msg.sender != REPORTER) revert NotAllowed(msg.sender);
        if (nodes.length != scores.length) revert BadLength(nodes.length, scores.length);
        for (uint256 i; i < nodes.length; ++i) {
            scoreOf[nodes[i]] = scores[i];
            emit ScoreUpdated(nodes[i], scores[i]);
        }
    }
}
