// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Hashes} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {IQoSRoots} from "./IQoSRoots.sol";

/// @notice The values of one node in a round.
/// @param node address of the node
/// @param nextNode the next higher address that has a leaf; the lowest address follows the highest. A leaf therefore
/// proves that no address between `node` and `nextNode` has a leaf
/// @param fields from the lowest bit: lane 16, flags 8, seat 32, number of scores that count 16, their sum 32, H at the
/// as-of block 64 (units of 10^-18), block time since which a kickout is due 40 (0 = none), block time of the last
/// score 40 (0 = none)
/// @param poolHash keccak256 of the scores that count, one byte each
struct NodeLeaf {
    address node;
    address nextNode;
    uint256 fields;
    bytes32 poolHash;
}

/// @notice The values of a whole round, which bind its root to one chain, oracle and round.
/// @param chainId chain of the oracle
/// @param oracle address of the oracle
/// @param round number of the round
/// @param asOf number of the block at which the leaves were computed
/// @param nodeCount number of leaves; their seats are 0 to nodeCount - 1
/// @param openCount number of lanes of 2 and more
/// @param totalWeight sum of lane - 1 over all leaves
struct RoundSummary {
    uint256 chainId;
    address oracle;
    uint32 round;
    uint48 asOf;
    uint32 nodeCount;
    uint32 openCount;
    uint64 totalWeight;
}

/// @title Proofs against the root of a round
/// @notice For consumers. A leaf is hashed twice, as OpenZeppelin's StandardMerkleTree hashes it, so that no inner node
/// passes for a leaf; the kinds of leaves differ in length (node 128 bytes, summary 224, word 64).
/// root = pair(summary, pair(nodes, words)): `nodes` is the tree of the nodes' leaves in the order of their seats,
/// `words` the tree of their lanes, sixteen a word, and `pair` OpenZeppelin's commutative hash. A proof of a node ends
/// with the root of `words` and the hash of the summary. See docs/reference/report-format.md#roots.
/// @dev A lane: 1 = do not select, 2 to 10002 = QoS + 2. The lane of a seat without a node, in a word, is 0.
library QoSProof {
    /// @notice Flags of a leaf. HELD: the kickout waits for a decision of the vetoer.
    uint256 internal constant MEMBER = 1;
    uint256 internal constant PAUSED = 2;
    uint256 internal constant EXCLUDED = 4;
    uint256 internal constant HELD = 8;

    /// @notice Weight of an address without a leaf: the same as for a QoS of 0.5, so that newcomers get work.
    uint256 internal constant NEWCOMER = 5_000;

    /// @notice The maximum weight: a QoS of 10000, plus 1.
    uint256 internal constant MAX_WEIGHT = 10_001;

    /// @notice The leaf of this node is not in the root of the round.
    error NotProven(address node);
    /// @notice The leaf does not prove that this node has none.
    error AbsenceNotProven(address node);
    /// @notice The summary is not that of the round.
    error SummaryNotProven(uint32 round);
    /// @notice The round must be at least `lag` rounds older than the last one, so that a wrong root can be struck
    /// before it counts.
    error RoundTooRecent(uint32 round, uint32 lastRound, uint32 lag);

    // --- roots ---

    /// @notice Returns the root of a round that is at least `lag` rounds older than the last one.
    /// @param lag rounds, 0 = the last round counts at once. A consumer that pays or punishes by a score should use
    /// the oracle's lag, because a stolen quorum's root can be struck in that time
    function getRoot(IQoSRoots oracle, uint32 round, uint32 lag) internal view returns (bytes32 root) {
        if (lag != 0) {
            (uint32 lastRound,,) = oracle.last();
            if (uint256(round) + lag > lastRound) revert RoundTooRecent(round, lastRound, lag);
        }
        return oracle.rootOf(round);
    }

    // --- proofs ---

    /// @notice Returns whether the leaf is in this root.
    function verifyLeaf(bytes32 root, NodeLeaf calldata leaf, bytes32[] calldata proof) internal pure returns (bool) {
        return MerkleProof.verifyCalldata(proof, root, hashLeaf(leaf));
    }

    /// @notice Reverts with NotProven unless the leaf is in this root.
    function requireLeaf(bytes32 root, NodeLeaf calldata leaf, bytes32[] calldata proof) internal pure {
        if (!verifyLeaf(root, leaf, proof)) revert NotProven(leaf.node);
    }

    /// @notice Returns whether no leaf of this root belongs to `node`.
    /// @param predecessor the leaf of the highest address below `node`, or of the highest of all if there is none below
    /// @param proof proof of `predecessor`
    function verifyAbsence(bytes32 root, address node, NodeLeaf calldata predecessor, bytes32[] calldata proof)
        internal
        pure
        returns (bool)
    {
        return isInGap(predecessor, node) && verifyLeaf(root, predecessor, proof);
    }

    /// @notice Reverts with AbsenceNotProven unless no leaf of this root belongs to `node`; see verifyAbsence.
    function requireAbsence(bytes32 root, address node, NodeLeaf calldata predecessor, bytes32[] calldata proof)
        internal
        pure
    {
        if (!verifyAbsence(root, node, predecessor, proof)) revert AbsenceNotProven(node);
    }

    /// @notice Returns whether the summary belongs to this root.
    /// @param trees pair(nodes, words)
    function verifySummary(bytes32 root, RoundSummary calldata summary, bytes32 trees) internal pure returns (bool) {
        return Hashes.commutativeKeccak256(hashSummary(summary), trees) == root;
    }

    /// @notice Reverts with SummaryNotProven unless the summary belongs to this root and names this round.
    /// @param trees pair(nodes, words)
    function requireSummary(bytes32 root, uint32 round, RoundSummary calldata summary, bytes32 trees) internal pure {
        if (summary.round != round || !verifySummary(root, summary, trees)) revert SummaryNotProven(round);
    }

    /// @notice Returns whether `word` holds the lanes of the seats 16 * index to 16 * index + 15.
    function verifyWord(bytes32 root, uint256 index, uint256 word, bytes32[] calldata proof)
        internal
        pure
        returns (bool)
    {
        return MerkleProof.verifyCalldata(proof, root, hashWord(index, word));
    }

    /// @notice Returns whether `node` is between the leaf's node and its next one, both excluded: it has no leaf.
    function isInGap(NodeLeaf calldata leaf, address node) internal pure returns (bool) {
        // The highest address is followed by the lowest. A single leaf is followed by itself.
        bool wraps = leaf.node >= leaf.nextNode;
        bool above = node > leaf.node;
        bool below = node < leaf.nextNode;
        return wraps ? above || below : above && below;
    }

    // --- hashes ---

    /// @notice Returns the hash of a node's leaf.
    function hashLeaf(NodeLeaf calldata leaf) internal pure returns (bytes32) {
        return keccak256(bytes.concat(keccak256(abi.encode(leaf))));
    }

    /// @notice Returns the hash of a summary.
    function hashSummary(RoundSummary calldata summary) internal pure returns (bytes32) {
        return keccak256(bytes.concat(keccak256(abi.encode(summary))));
    }

    /// @notice Returns the hash of a word's leaf.
    function hashWord(uint256 index, uint256 word) internal pure returns (bytes32 hash) {
        // keccak256(bytes.concat(keccak256(abi.encode(index, word)))) in scratch space: a run has many words.
        assembly ("memory-safe") {
            mstore(0x00, index)
            mstore(0x20, word)
            mstore(0x00, keccak256(0x00, 0x40))
            hash := keccak256(0x00, 0x20)
        }
    }

    // --- fields of a leaf ---

    /// @notice Returns the lane: 1 = do not select, 2 to 10002 = QoS + 2.
    function laneOf(NodeLeaf calldata leaf) internal pure returns (uint16) {
        return uint16(leaf.fields);
    }

    /// @notice Returns the weight in a draw: 0 = do not select, else QoS + 1.
    function weightOf(NodeLeaf calldata leaf) internal pure returns (uint256) {
        uint256 lane = laneOf(leaf);
        return lane == 0 ? 0 : lane - 1;
    }

    /// @notice Returns whether the node may be given work, by its lane.
    function isSelectable(NodeLeaf calldata leaf) internal pure returns (bool) {
        return weightOf(leaf) != 0;
    }

    /// @notice Returns the QoS, 0 to 10000; 0 also if the node must not be selected.
    function qosOf(NodeLeaf calldata leaf) internal pure returns (uint256) {
        uint256 weight = weightOf(leaf);
        return weight == 0 ? 0 : weight - 1;
    }

    /// @notice Returns the flags: MEMBER, PAUSED, EXCLUDED, HELD.
    function flagsOf(NodeLeaf calldata leaf) internal pure returns (uint256) {
        return uint8(leaf.fields >> 16);
    }

    /// @notice Returns the seat: the place of the leaf in the tree, which a node keeps for ever.
    function seatOf(NodeLeaf calldata leaf) internal pure returns (uint32) {
        return uint32(leaf.fields >> 24);
    }

    /// @notice Returns the number of scores that count, and their sum.
    function scoresOf(NodeLeaf calldata leaf) internal pure returns (uint256 count, uint256 sum) {
        return (uint16(leaf.fields >> 56), uint32(leaf.fields >> 72));
    }

    /// @notice Returns H at the as-of block, 0 to 10^18.
    function reliabilityOf(NodeLeaf calldata leaf) internal pure returns (uint256) {
        return uint64(leaf.fields >> 104);
    }

    /// @notice Returns the block time since which a kickout is due, unix seconds; 0 = none is due.
    function kickoutDueSinceOf(NodeLeaf calldata leaf) internal pure returns (uint40) {
        return uint40(leaf.fields >> 168);
    }

    /// @notice Returns the block time of the last score, unix seconds; 0 = no score.
    function lastScoredAtOf(NodeLeaf calldata leaf) internal pure returns (uint40) {
        return uint40(leaf.fields >> 208);
    }
}
