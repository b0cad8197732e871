// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSOracle} from "../IQoSOracle.sol";
import {IQoSRoots} from "../roots/IQoSRoots.sol";
import {NodeLeaf, QoSProof, RoundSummary} from "../roots/QoSProof.sol";

/// @title Access to the functions of QoSProof, for tests
contract ProofProbe {
    /// @notice All fields of a leaf.
    struct Fields {
        uint16 lane;
        uint256 weight;
        bool selectable;
        uint256 qos;
        uint256 flags;
        uint32 seat;
        uint256 scoreCount;
        uint256 scoreSum;
        uint256 reliability;
        uint40 kickoutDueSince;
        uint40 lastScoredAt;
    }

    function hashLeaf(NodeLeaf calldata leaf) external pure returns (bytes32) {
        return QoSProof.hashLeaf(leaf);
    }

    function hashSummary(RoundSummary calldata summary) external pure returns (bytes32) {
        return QoSProof.hashSummary(summary);
    }

    function hashWord(uint256 index, uint256 word) external pure returns (bytes32) {
        return QoSProof.hashWord(index, word);
    }

    function verifyLeaf(bytes32 root, NodeLeaf calldata leaf, bytes32[] calldata proof) external pure returns (bool) {
        return QoSProof.verifyLeaf(root, leaf, proof);
    }

    function requireLeaf(bytes32 root, NodeLeaf calldata leaf, bytes32[] calldata proof) external pure {
        QoSProof.requireLeaf(root, leaf, proof);
    }

    function verifyAbsence(bytes32 root, address node, NodeLeaf calldata predecessor, bytes32[] calldata proof)
        external
        pure
        returns (bool)
    {
        return QoSProof.verifyAbsence(root, node, predecessor, proof);
    }

    function requireAbsence(bytes32 root, address node, NodeLeaf calldata predecessor, bytes32[] calldata proof)
        external
        pure
    {
        QoSProof.requireAbsence(root, node, predecessor, proof);
    }

    function verifySummary(bytes32 root, RoundSummary calldata summary, bytes32 trees) external pure returns (bool) {
        return QoSProof.verifySummary(root, summary, trees);
    }

    function requireSummary(bytes32 root, uint32 round, RoundSummary calldata summary, bytes32 trees) external pure {
        QoSProof.requireSummary(root, round, summary, trees);
    }

    function verifyWord(bytes32 root, uint256 index, uint256 word, bytes32[] calldata proof)
        external
        pure
        returns (bool)
    {
        return QoSProof.verifyWord(root, index, word, proof);
    }

    function getRoot(IQoSRoots oracle, uint32 round, uint32 lag) external view returns (bytes32) {
        return QoSProof.getRoot(oracle, round, lag);
    }

    function fieldsOf(NodeLeaf calldata leaf) external pure returns (Fields memory fields) {
        (uint256 count, uint256 sum) = QoSProof.scoresOf(leaf);
        return Fields({
            lane: QoSProof.laneOf(leaf),
            weight: QoSProof.weightOf(leaf),
            selectable: QoSProof.isSelectable(leaf),
            qos: QoSProof.qosOf(leaf),
            flags: QoSProof.flagsOf(leaf),
            seat: QoSProof.seatOf(leaf),
            scoreCount: count,
            scoreSum: sum,
            reliability: QoSProof.reliabilityOf(leaf),
            kickoutDueSince: QoSProof.kickoutDueSinceOf(leaf),
            lastScoredAt: QoSProof.lastScoredAtOf(leaf)
        });
    }

    /// @notice Returns the gas of a read by proof within a transaction, without its calldata.
    function gasOfLeaf(IQoSRoots oracle, uint32 round, NodeLeaf calldata leaf, bytes32[] calldata proof)
        external
        view
        returns (uint256 gasUsed, uint256 weight)
    {
        uint256 gasBefore = gasleft();
        QoSProof.requireLeaf(QoSProof.getRoot(oracle, round, 0), leaf, proof);
        weight = QoSProof.weightOf(leaf);
        gasUsed = gasBefore - gasleft();
    }

    /// @notice Returns the gas of a proof of absence within a transaction, without its calldata.
    function gasOfAbsence(
        IQoSRoots oracle,
        uint32 round,
        address node,
        NodeLeaf calldata predecessor,
        bytes32[] calldata proof
    ) external view returns (uint256 gasUsed) {
        uint256 gasBefore = gasleft();
        QoSProof.requireAbsence(QoSProof.getRoot(oracle, round, 0), node, predecessor, proof);
        gasUsed = gasBefore - gasleft();
    }

    /// @notice Returns the gas of a read without proof within a transaction.
    function gasOfWeight(IQoSOracle oracle, address node) external view returns (uint256 gasUsed, uint256 weight) {
        uint256 gasBefore = gasleft();
        weight = oracle.weightOf(node);
        gasUsed = gasBefore - gasleft();
    }
}
