// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSRoots} from "../IQoSRoots.sol";
import {NodeLeaf, QoSProof, RoundSummary} from "../QoSProof.sol";

/// @title Example consumer: draws one of all nodes by weight, without a list of them
/// @notice An example to start from. Try i has the hash h = keccak256(seed, id of the draw, i). The try names the seat
/// h mod nodeCount, and takes the node of this seat if its weight, 0 to 10001, exceeds (h / 2^128) mod 10001, and the
/// node is free. Otherwise the next try decides. The caller proves the leaves of all tries, so it can neither skip nor
/// choose a node. The cost depends on the number of tries, about 10001 / mean weight, not on the number of nodes.
contract SeatDraw {
    /// @notice One storage slot.
    /// @param round the round whose weights count: LAG rounds old when the draw was requested
    /// @param seedBlock the block whose hash is the seed: the one after the request
    struct Draw {
        uint32 round;
        uint64 seedBlock;
    }

    event DrawRequested(uint256 indexed id, uint32 round, uint256 seedBlock);
    event NodeDrawn(uint256 indexed id, address indexed node, uint256 tries);

    /// @notice There is no such draw, or it is completed.
    error NoDraw(uint256 id);
    /// @notice The hash of the seed block is not known: the block is not mined yet, or is more than 256 blocks old.
    error NoSeed(uint256 seedBlock);
    /// @notice The leaf is not on the seat that this try names.
    error WrongSeat(uint256 expected, uint256 got);
    /// @notice A try takes its node, but leaves of further tries are given.
    error NodeSkipped(address node);
    /// @notice No try takes its node, so leaves of further tries are required.
    error NoNodeTaken();

    IQoSRoots public immutable ORACLE;

    /// @notice The oracle's LAG, rounds.
    uint32 public immutable LAG;

    /// @notice Number of draws; the last one has this number.
    uint256 public drawCount;
    mapping(uint256 id => Draw) public draws;

    constructor(IQoSRoots oracle) {
        (ORACLE, LAG) = (oracle, oracle.LAG());
    }

    /// @notice Requests a draw, which fixes its round and its seed. Anyone may call it: a contract that pays by draws
    /// accepts one request for a job, so that its owner cannot repeat requests until a result suits it.
    function request() external returns (uint256 id) {
        (uint32 lastRound,,) = ORACLE.last();
        id = ++drawCount;
        // Reverts if that round does not exist or was struck.
        uint32 round = lastRound < LAG ? 0 : lastRound - LAG;
        ORACLE.rootOf(round);
        draws[id] = Draw(round, uint64(block.number + 1));
        emit DrawRequested(id, round, block.number + 1);
    }

    /// @notice Completes a draw. Anyone may call it.
    /// @param summary the summary of the draw's round
    /// @param trees pair(nodes, words) of this round
    /// @param leaves the leaves of all tries, the last of which takes its node
    /// @param proofs their proofs
    /// @return node the drawn node
    function complete(
        uint256 id,
        RoundSummary calldata summary,
        bytes32 trees,
        NodeLeaf[] calldata leaves,
        bytes32[][] calldata proofs
    ) external returns (address node) {
        Draw memory draw = draws[id];
        if (draw.seedBlock == 0) revert NoDraw(id);
        bytes32 seed = blockhash(draw.seedBlock);
        if (seed == 0) revert NoSeed(draw.seedBlock);
        delete draws[id];
        bytes32 root = ORACLE.rootOf(draw.round);
        QoSProof.requireSummary(root, draw.round, summary, trees);
        for (uint256 i; i < leaves.length; ++i) {
            if (node != address(0)) revert NodeSkipped(node);
            QoSProof.requireLeaf(root, leaves[i], proofs[i]);
            if (_isTaken(leaves[i], keccak256(abi.encode(seed, id, i)), summary.nodeCount)) node = leaves[i].node;
        }
        if (node == address(0)) revert NoNodeTaken();
        emit NodeDrawn(id, node, leaves.length);
    }

    /// @notice Returns whether the node may be drawn. A network also checks here whether the node is idle.
    function isFree(address node) public view returns (bool) {
        return !ORACLE.isExpelled(node);
    }

    /// @dev Returns whether a try with this hash takes the leaf's node; reverts unless its seat is hash % nodeCount.
    function _isTaken(NodeLeaf calldata leaf, bytes32 hash, uint256 nodeCount) private view returns (bool) {
        uint256 h = uint256(hash);
        uint256 seat = QoSProof.seatOf(leaf);
        if (seat != h % nodeCount) revert WrongSeat(h % nodeCount, seat);
        return QoSProof.weightOf(leaf) > (h >> 128) % QoSProof.MAX_WEIGHT && isFree(leaf.node);
    }
}
