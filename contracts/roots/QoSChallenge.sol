// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSRoots} from "./IQoSRoots.sol";
import {NodeLeaf, QoSProof} from "./QoSProof.sol";

/// @title Proofs that a round's root contradicts itself
/// @notice Any account may submit a proof; the round is then marked for ever, and consumers that read `isWrong` see the
/// mark at once. The contract finds software errors. It cannot show that a root is right, because invented scores that
/// are encoded correctly pass.
/// @dev For rules whose QoS is the mean of a pool of scores, 0 to Q_MAX, times H (rule sets crynux and crynux-docs).
/// Other rules, such as legacy rules, need a contract of their own.
contract QoSChallenge {
    /// @notice The oracle whose rounds are judged.
    IQoSRoots public immutable ORACLE;

    /// @notice The best score of a task in these rules.
    uint256 public immutable Q_MAX;

    uint256 private constant UNIT = 1e18;
    /// @dev One step of a lane in units of 10^-18.
    uint256 private constant QOS_STEP = 1e14;
    uint256 private constant LOWEST_SCORE = 2;
    uint16 private constant DO_NOT_SELECT = 1;

    /// @notice Reason of a round with two leaves that contradict each other.
    bytes32 public constant TWO_LEAVES = "two leaves";
    /// @notice Reason of a round with a lane that does not follow from its leaf.
    bytes32 public constant WRONG_LANE = "lane";
    /// @notice Reason of a round with scores that do not have the sum and count of their leaf.
    bytes32 public constant WRONG_POOL = "pool";

    /// @notice The contradiction that was proven for a round: TWO_LEAVES, WRONG_LANE or WRONG_POOL; 0 = none.
    mapping(uint32 round => bytes32 reason) public reasonOf;

    /// @notice A contradiction was proven.
    event RoundWrong(uint32 indexed round, bytes32 reason, address by);

    /// @notice Q_MAX is not 1 to 255: a score has one byte.
    error BadMaxScore(uint256 qMax);
    /// @notice The proofs show no contradiction, or one of this round is known already.
    error NothingWrong(uint32 round);

    constructor(IQoSRoots oracle, uint256 qMax) {
        if (qMax == 0 || qMax > type(uint8).max) revert BadMaxScore(qMax);
        (ORACLE, Q_MAX) = (oracle, qMax);
    }

    /// @notice Returns whether a contradiction of this round's root was proven.
    function isWrong(uint32 round) external view returns (bool) {
        return reasonOf[round] != 0;
    }

    /// @notice Proves that two different leaves belong to one address or one seat, or that one leaf denies the other:
    /// its node is in the other's gap.
    function twoLeaves(
        uint32 round,
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        NodeLeaf calldata other,
        bytes32[] calldata otherProof
    ) external {
        bytes32 root = ORACLE.rootOf(round);
        QoSProof.requireLeaf(root, leaf, proof);
        QoSProof.requireLeaf(root, other, otherProof);
        if (QoSProof.hashLeaf(leaf) == QoSProof.hashLeaf(other)) revert NothingWrong(round);
        bool sameNode = leaf.node == other.node;
        bool sameSeat = QoSProof.seatOf(leaf) == QoSProof.seatOf(other);
        if (!sameNode && !sameSeat && !QoSProof.isInGap(leaf, other.node)) revert NothingWrong(round);
        _mark(round, TWO_LEAVES);
    }

    /// @notice Proves that the lane does not follow from the other fields of its leaf.
    function wrongLane(uint32 round, NodeLeaf calldata leaf, bytes32[] calldata proof) external {
        QoSProof.requireLeaf(ORACLE.rootOf(round), leaf, proof);
        if (expectedLane(leaf) == QoSProof.laneOf(leaf)) revert NothingWrong(round);
        _mark(round, WRONG_LANE);
    }

    /// @notice Proves that the scores behind a leaf do not have its sum and count.
    /// @param pool the scores, one byte each, whose keccak256 is the leaf's poolHash
    function wrongPool(uint32 round, NodeLeaf calldata leaf, bytes32[] calldata proof, bytes calldata pool) external {
        QoSProof.requireLeaf(ORACLE.rootOf(round), leaf, proof);
        if (keccak256(pool) != leaf.poolHash) revert NothingWrong(round);
        uint256 poolSum;
        for (uint256 i; i < pool.length; ++i) {
            poolSum += uint8(pool[i]);
        }
        (uint256 count, uint256 sum) = QoSProof.scoresOf(leaf);
        if (count == pool.length && sum == poolSum) revert NothingWrong(round);
        _mark(round, WRONG_POOL);
    }

    /// @notice Returns the lane that follows from the other fields: floor(floor(sum / (count * Q_MAX)) * H), each in
    /// units of 10^-18, in steps of 10^-4, plus 2; or 1 if the node is not a member, paused or excluded.
    /// @dev A leaf without scores, or with scores of 0 only, is not judged, because rules may count it as a newcomer: its
    /// own lane is returned.
    function expectedLane(NodeLeaf calldata leaf) public view returns (uint256) {
        uint256 state = QoSProof.flagsOf(leaf) & (QoSProof.MEMBER | QoSProof.PAUSED | QoSProof.EXCLUDED);
        if (state != QoSProof.MEMBER) return DO_NOT_SELECT;
        (uint256 count, uint256 sum) = QoSProof.scoresOf(leaf);
        if (count == 0 || sum == 0) return QoSProof.laneOf(leaf);
        uint256 longTerm = sum * UNIT / (count * Q_MAX);
        return longTerm * QoSProof.reliabilityOf(leaf) / UNIT / QOS_STEP + LOWEST_SCORE;
    }

    function _mark(uint32 round, bytes32 reason) private {
        if (reasonOf[round] != 0) revert NothingWrong(round);
        reasonOf[round] = reason;
        emit RoundWrong(round, reason, msg.sender);
    }
}
