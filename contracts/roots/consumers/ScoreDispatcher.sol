// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSOracle} from "../../IQoSOracle.sol";
import {IQoSRoots} from "../IQoSRoots.sol";
import {NodeLeaf, QoSProof} from "../QoSProof.sol";

/// @title Example consumer: starts a task only on a node that is good enough
/// @notice An example to start from. The node's weight is read from the hot set (QoSWords), or proven by the
/// caller. Networks that start many tasks a round use the hot set, other networks use proofs.
contract ScoreDispatcher {
    event TaskStarted(uint256 indexed task, address indexed node, uint256 weight);

    /// @notice The node is expelled, must not be selected, or its weight is below MIN_WEIGHT.
    error NodeNotGoodEnough(address node, uint256 weight);
    /// @notice The round is more than MAX_ROUNDS older than the newest round that is LAG rounds old.
    error RoundTooOld(uint32 round, uint32 lastRound);

    IQoSRoots public immutable ORACLE;

    /// @notice The hot set of the same oracle.
    IQoSOracle public immutable WORDS;

    /// @notice The oracle's LAG, rounds.
    uint32 public immutable LAG;

    /// @notice Minimum weight of a node, QoS + 1. Up to 5000 a newcomer is good enough.
    uint256 public immutable MIN_WEIGHT;

    /// @notice Number of rounds by which the round of a proof may be older than the newest round that is LAG rounds old,
    /// because a new round may be accepted between the proof and its transaction.
    uint32 public constant MAX_ROUNDS = 3;

    /// @notice Number of tasks; the last one has this number.
    uint256 public taskCount;
    mapping(uint256 task => address node) public nodeOf;

    constructor(IQoSRoots oracle, IQoSOracle words, uint256 minWeight) {
        (ORACLE, WORDS, LAG, MIN_WEIGHT) = (oracle, words, oracle.LAG(), minWeight);
    }

    /// @notice Starts a task on a node by its weight in the hot set.
    function start(address node) external returns (uint256 task) {
        // Expulsions, newcomers and stale scores are part of the weight.
        return _start(node, WORDS.weightOf(node));
    }

    /// @notice Starts a task on a node by its leaf.
    /// @param round a round that is at least LAG rounds old, and at most MAX_ROUNDS more
    function startByProof(uint32 round, NodeLeaf calldata leaf, bytes32[] calldata proof)
        external
        returns (uint256 task)
    {
        QoSProof.requireLeaf(_getRecentRoot(round), leaf, proof);
        return _start(leaf.node, ORACLE.isExpelled(leaf.node) ? 0 : QoSProof.weightOf(leaf));
    }

    /// @notice Starts a task on a node without a leaf, a newcomer.
    /// @param predecessor the leaf whose gap contains the node's address; see QoSProof.verifyAbsence
    function startNewcomer(uint32 round, address node, NodeLeaf calldata predecessor, bytes32[] calldata proof)
        external
        returns (uint256 task)
    {
        QoSProof.requireAbsence(_getRecentRoot(round), node, predecessor, proof);
        return _start(node, ORACLE.isExpelled(node) ? 0 : QoSProof.NEWCOMER);
    }

    function _getRecentRoot(uint32 round) private view returns (bytes32) {
        (uint32 lastRound,,) = ORACLE.last();
        if (uint256(round) + LAG + MAX_ROUNDS < lastRound) revert RoundTooOld(round, lastRound);
        return QoSProof.getRoot(ORACLE, round, LAG);
    }

    function _start(address node, uint256 weight) private returns (uint256 task) {
        if (weight == 0 || weight < MIN_WEIGHT) revert NodeNotGoodEnough(node, weight);
        task = ++taskCount;
        nodeOf[task] = node;
        emit TaskStarted(task, node, weight);
    }
}
