// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSRoots} from "../IQoSRoots.sol";
import {NodeLeaf, QoSProof} from "../QoSProof.sol";

/// @title Example consumer: an escrow that pays a node by its score
/// @notice An example to start from. The score is taken from the round that was the last one when the job was created, so
/// that neither side can wait for a better score. A job is settled when this round is LAG rounds old, because its root
/// could be struck until then, but before the root is dropped, KEPT rounds later.
contract PayByScore {
    /// @notice Two storage slots.
    /// @param node the node that does the job
    /// @param fee wei in escrow
    /// @param payer the account that created the job and gets the rest of the fee
    /// @param round the round whose score counts
    struct Job {
        address node;
        uint96 fee;
        address payer;
        uint32 round;
    }

    event JobCreated(uint256 indexed id, address indexed node, address indexed payer, uint256 fee, uint32 round);
    event JobSettled(uint256 indexed id, address indexed node, uint256 paid, uint256 returned);

    /// @notice The fee has more than 96 bits.
    error FeeTooHigh(uint256 fee);
    /// @notice There is no such job, it is settled, or the leaf belongs to another node.
    error NotThisJob(uint256 id);
    /// @notice The root of the job's round is kept, so the job is settled by it.
    error RootIsKept(uint32 round);
    /// @notice Nothing is owed to the caller, or the caller rejects the ether.
    error NothingToWithdraw(address caller);

    IQoSRoots public immutable ORACLE;

    /// @notice The oracle's LAG, rounds.
    uint32 public immutable LAG;

    /// @notice Gas that a payment may use. A recipient that needs more withdraws.
    uint256 public constant PAYMENT_GAS = 30_000;

    mapping(uint256 id => Job) public jobs;

    /// @notice Number of jobs; the last one has this number.
    uint256 public jobCount;

    /// @notice Wei that a recipient did not accept and can withdraw.
    mapping(address recipient => uint256) public owed;

    constructor(IQoSRoots oracle) {
        (ORACLE, LAG) = (oracle, oracle.LAG());
    }

    /// @notice Creates a job for a node; its fee is the value of the call.
    function create(address node) external payable returns (uint256 id) {
        if (msg.value > type(uint96).max) revert FeeTooHigh(msg.value);
        (uint32 round,,) = ORACLE.last();
        id = ++jobCount;
        jobs[id] = Job(node, uint96(msg.value), msg.sender, round);
        emit JobCreated(id, node, msg.sender, msg.value, round);
    }

    /// @notice Pays the fee times the QoS to the node, and the rest to the payer. Anyone may call it.
    function settle(uint256 id, NodeLeaf calldata leaf, bytes32[] calldata proof) external {
        Job memory job = _take(id);
        if (leaf.node != job.node) revert NotThisJob(id);
        QoSProof.requireLeaf(QoSProof.getRoot(ORACLE, job.round, LAG), leaf, proof);
        _pay(id, job, uint256(job.fee) * QoSProof.qosOf(leaf) / 10_000);
    }

    /// @notice Pays half of the fee to a node that had no leaf in the job's round. Anyone may call it.
    /// @param predecessor the leaf whose gap contains the node's address; see QoSProof.verifyAbsence
    function settleNewcomer(uint256 id, NodeLeaf calldata predecessor, bytes32[] calldata proof) external {
        Job memory job = _take(id);
        QoSProof.requireAbsence(QoSProof.getRoot(ORACLE, job.round, LAG), job.node, predecessor, proof);
        _pay(id, job, job.fee / 2);
    }

    /// @notice Pays half of the fee to a node if the root of the job's round was struck or is no longer kept, or if
    /// there was no round. Any account may call it. A side that would lose by this has to settle the job in time.
    function settleWithoutRoot(uint256 id) external {
        Job memory job = _take(id);
        try ORACLE.rootOf(job.round) returns (bytes32) {
            revert RootIsKept(job.round);
        } catch {
            _pay(id, job, job.fee / 2);
        }
    }

    /// @notice Pays out the amounts whose earlier transfer to the caller failed.
    function withdraw() external {
        uint256 amount = owed[msg.sender];
        delete owed[msg.sender];
        (bool accepted,) = msg.sender.call{value: amount}("");
        if (amount == 0 || !accepted) revert NothingToWithdraw(msg.sender);
    }

    function _take(uint256 id) private returns (Job memory job) {
        job = jobs[id];
        if (job.payer == address(0)) revert NotThisJob(id);
        delete jobs[id];
    }

    function _pay(uint256 id, Job memory job, uint256 amount) private {
        uint256 rest = job.fee - amount;
        emit JobSettled(id, job.node, amount, rest);
        _send(job.node, amount);
        _send(job.payer, rest);
    }

    /// @dev A recipient that rejects ether does not prevent the payment of the other side.
    function _send(address to, uint256 amount) private {
        if (amount == 0) return;
        (bool accepted,) = to.call{value: amount, gas: PAYMENT_GAS}("");
        if (!accepted) owed[to] += amount;
    }
}
