// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TargetCall} from "./TargetCall.sol";
import {IQoSRoots} from "../IQoSRoots.sol";
import {NodeLeaf, QoSProof, RoundSummary} from "../QoSProof.sol";
import {KickoutLimits} from "./KickoutLimits.sol";
import {Limits} from "./RoundLimits.sol";
import {RootRounds} from "./RootRounds.sol";

/// @title Kickouts by proof: accusation, veto delay, execution
/// @notice A leaf states the time since which a kickout of its node is due; this time identifies the interval. Any
/// account may accuse the node with its leaf in the last root. After vetoDelay seconds and kickRounds rounds, any account
/// may execute the kickout, if the last root still states the same interval, the scores are fresh and the bucket is not
/// empty. Execution expels the node for all readers of the oracle; then the target (the network, or an adapter in front
/// of it) is called to end the membership. The target cannot undo the expulsion. A kickout is not signed, and pausing
/// the oracle stops kickouts.
/// @dev A kickout belongs to an address, as the leaf does: it survives quitting and joining again. Only the last root
/// counts, and only if the current signers signed it, because an older root could accuse a node that has recovered.
abstract contract KickoutsByProof is RootRounds, KickoutLimits {
    using QoSProof for NodeLeaf;

    /// @notice None: also after a veto, a recovery or a readmission. Refused: the node is expelled, but the target reverted.
    enum KickState {
        None,
        Accused,
        Expelled,
        Refused
    }

    /// @notice One storage slot per address. Times are unix seconds.
    /// @param state see KickState; it does not change when the expulsion ends
    /// @param dueSince the accused interval: the time since which the kickout is due
    /// @param readyAt time from which it can be executed
    /// @param expelledUntil time at which the expulsion ends, the maximum = never
    /// @param sparedUntil intervals that began at or before it cannot be accused: vetoed, executed or readmitted
    /// @param allowed interval for which the vetoer allowed a held kickout
    /// @param round round of the accusation, the execution or the last call to the target
    struct NodeKick {
        KickState state;
        uint40 dueSince;
        uint40 readyAt;
        uint40 expelledUntil;
        uint40 sparedUntil;
        uint40 allowed;
        uint32 round;
    }

    /// @dev Value of `why` if the last root no longer states the accused interval.
    bytes32 private constant RECOVERED = "recovered";

    /// @dev A QoS of 0 has lane 2.
    uint256 private constant ZERO_QOS = 2;

    /// @notice Contract that is called to end a membership; zero = none, the network's operator acts on the event.
    address public target;

    mapping(address node => NodeKick) internal _kicks;

    /// @notice This contract is called to end a membership from now on; zero = none.
    event TargetSet(address indexed target);
    /// @notice The node is accused; `evidence` is the hash of the scores behind it, which the daemon publishes.
    event KickAccused(address indexed node, uint32 round, uint40 dueSince, bytes32 evidence, uint40 readyAt);
    /// @notice The accusation ended. `by` is the vetoer if it vetoed the kickout, so that the interval cannot be accused
    /// again. It is zero, and `why` is "recovered", if the last root no longer states the interval.
    event KickCancelled(address indexed node, address indexed by, bytes32 why);
    /// @notice The vetoer allowed the held kickout that is due since `dueSince`; 0 = the permission was withdrawn.
    event KickAllowed(address indexed node, uint40 dueSince);
    /// @notice The node is expelled; `target` is called in the same transaction (zero = none). Emitted again by
    /// retryKick, with `evidence` 0.
    event KickExecuted(address indexed node, bytes32 evidence, address target);
    /// @notice The call to the target failed with `reason`: the first 32 bytes of its revert data, or "no code". See
    /// retryKick.
    event KickRefused(address indexed node, address indexed target, bytes32 reason);
    /// @notice The constructor expelled the node, because the previous oracle had expelled it.
    event NodeExpelled(address indexed node);
    /// @notice The admin ended the expulsion of this node.
    event NodeReadmitted(address indexed node);

    /// @notice Kickouts are paused until the admin resumes them.
    error KicksRest();
    /// @notice This node is not accused.
    error NoKick(address node);
    /// @notice The node is accused of this interval already.
    error AlreadyAccused(address node);
    /// @notice The node is expelled.
    error AlreadyExpelled(address node);
    /// @notice The node is not expelled.
    error NotExpelled(address node);
    /// @notice The leaf states no due kickout, or one that is due since a time in the future.
    error NotDue(address node);
    /// @notice The leaf states another interval than the accusation, which is due since `dueSince`.
    error OtherInterval(address node, uint40 dueSince);
    /// @notice The leaf still states the accused interval.
    error StillDue(address node);
    /// @notice The interval was vetoed, or executed, or the node was readmitted since.
    error Spared(address node);
    /// @notice The leaf is held: the vetoer must allow the kickout first.
    error KickHeld(address node);
    /// @notice The lane is at least kickBelow + 2.
    error NotBelowThreshold(uint16 lane);
    /// @notice The last round is older than maxAgeSeconds: an oracle that stopped reporting kicks no node out.
    error StaleScores(uint40 pushedAt);
    /// @notice Too early: before `readyAt`, or before round `round`.
    error KickNotReady(uint40 readyAt, uint256 round);
    /// @notice Fewer lanes than minOpen are open.
    error TooFewOpen(uint32 openCount, uint24 minOpen);
    /// @notice The target is zero or has no code.
    error NoTarget(address target);

    constructor(address firstTarget, address[] memory expelled) {
        // No code is required: an adapter that is deployed after its oracle is set by its future address.
        target = firstTarget;
        emit TargetSet(firstTarget);
        for (uint256 i; i < expelled.length; ++i) {
            _kicks[expelled[i]].state = KickState.Expelled;
            _kicks[expelled[i]].expelledUntil = type(uint40).max;
            emit NodeExpelled(expelled[i]);
        }
    }

    /// @notice Returns the slot of a node's kickout.
    function kickOf(address node) external view returns (NodeKick memory) {
        return _kicks[node];
    }

    /// @inheritdoc IQoSRoots
    function isExpelled(address node) external view returns (bool) {
        return _isExpelled(_kicks[node]);
    }

    /// @inheritdoc IQoSRoots
    function isKickPending(address node) external view returns (bool) {
        return _kicks[node].state == KickState.Accused;
    }

    /// @notice Accuses a node whose kickout is due. Anyone may call it. An accusation of another interval is replaced,
    /// because the last root no longer contains it.
    /// @param leaf the node's leaf in the last root
    function accuse(NodeLeaf calldata leaf, bytes32[] calldata proof) external {
        Head memory now_ = _head;
        _checkKicksRun(now_);
        NodeKick memory kick = _kicks[leaf.node];
        if (_isExpelled(kick)) revert AlreadyExpelled(leaf.node);
        QoSProof.requireLeaf(rootOf(now_.round), leaf, proof);
        uint40 dueSince = _checkDue(leaf, kick.allowed);
        if (dueSince <= kick.sparedUntil) revert Spared(leaf.node);
        if (kick.state == KickState.Accused) {
            if (kick.dueSince == dueSince) revert AlreadyAccused(leaf.node);
            emit KickCancelled(leaf.node, address(0), RECOVERED);
        }
        kick.state = KickState.Accused;
        kick.dueSince = dueSince;
        kick.readyAt = uint40(block.timestamp) + _limits.vetoDelay;
        kick.round = now_.round;
        _kicks[leaf.node] = kick;
        emit KickAccused(leaf.node, now_.round, dueSince, leaf.poolHash, kick.readyAt);
    }

    /// @notice Executes a kickout. Anyone may call it, so that no role can omit a kickout.
    /// @param leaf the node's leaf in the last root
    /// @param proof its proof, which ends with the hash of `summary`
    /// @param summary the last round's summary, which contains the number of open lanes
    function executeKick(NodeLeaf calldata leaf, bytes32[] calldata proof, RoundSummary calldata summary) external {
        Head memory now_ = _head;
        Limits memory limits_ = _limits;
        _checkKicksRun(now_);
        NodeKick memory kick = _kicks[leaf.node];
        if (kick.state != KickState.Accused) revert NoKick(leaf.node);
        uint256 readyRound = uint256(kick.round) + limits_.kickRounds;
        if (block.timestamp < kick.readyAt || now_.round < readyRound) revert KickNotReady(kick.readyAt, readyRound);
        if (!_isFresh(now_)) revert StaleScores(now_.pushedAt);
        QoSProof.requireLeaf(rootOf(now_.round), leaf, proof);
        if (_checkDue(leaf, kick.allowed) != kick.dueSince) revert OtherInterval(leaf.node, kick.dueSince);
        // The root is the pair of the summary and the trees, so every proof of a leaf ends with the summary's hash.
        if (summary.round != now_.round || proof[proof.length - 1] != QoSProof.hashSummary(summary)) {
            revert QoSProof.SummaryNotProven(now_.round);
        }
        if (summary.openCount < limits_.minOpen) revert TooFewOpen(summary.openCount, limits_.minOpen);
        _takeFromBucket();
        uint256 until = block.timestamp + _kickLimits.kickCooldown;
        kick.state = KickState.Expelled;
        kick.expelledUntil = until < type(uint40).max ? uint40(until) : type(uint40).max;
        kick.sparedUntil = kick.dueSince;
        kick.round = now_.round;
        _kicks[leaf.node] = kick;
        _callTarget(leaf.node, leaf.poolHash);
    }

    /// @notice Calls the target again: at any time after it refused, else every kickRounds rounds, for a node that has
    /// joined the network again. Anyone may call it and pays the gas; it takes nothing from the bucket.
    function retryKick(address node) external {
        Head memory now_ = _head;
        _checkKicksRun(now_);
        NodeKick memory kick = _kicks[node];
        if (!_isExpelled(kick)) revert NotExpelled(node);
        if (target == address(0)) revert NoTarget(target);
        if (kick.state == KickState.Expelled) {
            uint256 readyRound = uint256(kick.round) + _limits.kickRounds;
            if (now_.round < readyRound) revert KickNotReady(0, readyRound);
        }
        _kicks[node].state = KickState.Expelled;
        _kicks[node].round = now_.round;
        _callTarget(node, 0);
    }

    /// @notice Ends an accusation whose interval the last root no longer states. Anyone may call it, also in a pause.
    /// @param leaf the node's leaf in the last root
    function clear(NodeLeaf calldata leaf, bytes32[] calldata proof) external {
        NodeKick storage kick = _kicks[leaf.node];
        if (kick.state != KickState.Accused) revert NoKick(leaf.node);
        QoSProof.requireLeaf(rootOf(_head.round), leaf, proof);
        if (leaf.kickoutDueSinceOf() == kick.dueSince) revert StillDue(leaf.node);
        kick.state = KickState.None;
        emit KickCancelled(leaf.node, address(0), RECOVERED);
    }

    /// @notice Cancels a kickout: the node cannot be accused of this interval again.
    /// @param why short reason for the event
    function veto(address node, bytes32 why) external onlyVetoer {
        NodeKick storage kick = _kicks[node];
        if (kick.state != KickState.Accused) revert NoKick(node);
        kick.state = KickState.None;
        kick.sparedUntil = kick.dueSince;
        emit KickCancelled(node, msg.sender, why);
    }

    /// @notice Allows a held kickout, which a person has examined.
    /// @param dueSince the interval, as the leaf states it; 0 withdraws the permission
    function allow(address node, uint40 dueSince) external onlyVetoer {
        _kicks[node].allowed = dueSince;
        emit KickAllowed(node, dueSince);
    }

    /// @notice Ends an expulsion before its time; no other call does. Intervals that began until now cannot be accused.
    function readmit(address node) external onlyAdmin {
        NodeKick storage kick = _kicks[node];
        if (kick.state < KickState.Expelled) revert NotExpelled(node);
        kick.state = KickState.None;
        kick.sparedUntil = uint40(block.timestamp);
        emit NodeReadmitted(node);
    }

    /// @notice Sets the contract that is called to end a membership; zero = none.
    function setTarget(address wanted) external onlyAdmin {
        if (wanted != address(0) && wanted.code.length == 0) revert NoTarget(wanted);
        target = wanted;
        emit TargetSet(wanted);
    }

    /// @dev All state is written before the call. If the call fails, its effects are reverted.
    function _callTarget(address node, bytes32 evidence) private {
        address to = target;
        emit KickExecuted(node, evidence, to);
        if (to == address(0)) return;
        (bool done, bytes32 reason) = TargetCall.kick(to, node, evidence, _kickLimits.kickGas);
        if (done) return;
        _kicks[node].state = KickState.Refused;
        emit KickRefused(node, to, reason);
    }

    function _checkKicksRun(Head memory now_) private view {
        _checkRunning(now_.pausedUntil);
        if (now_.kicksPaused) revert KicksRest();
        if (now_.roundConfig != now_.configCount) revert WrongConfig(now_.configCount, now_.roundConfig);
    }

    /// @param allowed interval for which a held kickout is allowed
    /// @return dueSince the interval that the leaf states
    function _checkDue(NodeLeaf calldata leaf, uint40 allowed) private view returns (uint40 dueSince) {
        dueSince = leaf.kickoutDueSinceOf();
        if (dueSince == 0 || dueSince > block.timestamp) revert NotDue(leaf.node);
        uint16 lane = leaf.laneOf();
        if (lane >= _limits.kickBelow + ZERO_QOS) revert NotBelowThreshold(lane);
        if (leaf.flagsOf() & QoSProof.HELD != 0 && allowed != dueSince) revert KickHeld(leaf.node);
    }

    function _isExpelled(NodeKick memory kick) private view returns (bool) {
        return kick.state >= KickState.Expelled && block.timestamp < kick.expelledUntil;
    }
}
