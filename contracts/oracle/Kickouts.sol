// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {KickCounts} from "./KickCounts.sol";
import {Lanes} from "./Lanes.sol";
import {Limits} from "./Limits.sol";
import {NodeScores} from "./NodeScores.sol";
import {SignerQuorum} from "./SignerQuorum.sol";
import {TargetCall} from "./TargetCall.sol";

/// @title Kickouts: proposal by a quorum, veto delay, execution
/// @notice A quorum proposes a kickout; after a number of seconds and of rounds anyone executes it, if the node's lane
/// is still low, the scores are fresh and the bucket is not empty. Execution expels the node for all readers of the
/// oracle; then the target (the network, or an adapter in front of it) is called to end the membership. The target
/// cannot undo the expulsion. Pausing the oracle stops kickouts.
/// @dev A kickout belongs to an address, as the pool and the exclusions do: it survives quitting and joining again.
abstract contract Kickouts is NodeScores, SignerQuorum, KickCounts {
    bytes32 private constant KICK =
        keccak256("Kick(bytes32 config,bytes32 report,address node,bytes32 evidence,uint40 deadline)");

    /// @dev `why` if a new proposal replaces an expired or invalidated one.
    bytes32 private constant DIED = "died";

    /// @notice Contract that is called to end a membership; zero = none, the network's operator acts on the event.
    address public target;

    /// @notice Hash of the public file with the reasons of the last proposal; 0 = none, or cancelled or readmitted
    /// since.
    mapping(address node => bytes32) public evidenceOf;

    event TargetSet(address indexed target);
    event KickProposed(
        address indexed node, uint32 round, uint16 lane, bytes32 evidence, uint40 readyAt, uint40 diesAt
    );
    event KickCancelled(address indexed node, address indexed by, bytes32 why);
    /// @notice The node is expelled; `target` is called in the same transaction (zero = none). Emitted again by
    /// retryKick.
    event KickExecuted(address indexed node, bytes32 evidence, address target);
    /// @notice The call to the target failed with `reason`: the first 32 bytes of its revert data, or "no code". See
    /// retryKick.
    event KickRefused(address indexed node, address indexed target, bytes32 reason);
    /// @notice Expelled by the constructor, because the previous oracle had expelled it.
    event NodeExpelled(address indexed node);
    event NodeReadmitted(address indexed node);

    /// @notice Kickouts are paused until the admin resumes them.
    error KicksRest();
    /// @notice This node has no pending kickout, or its signers or rules were replaced.
    error NoKick(address node);
    /// @notice A kickout of this node is already pending.
    error KickLive(address node);
    /// @notice The node is expelled.
    error AlreadyExpelled(address node);
    /// @notice The node is not expelled.
    error NotExpelled(address node);
    /// @notice Signed on round `round` or earlier, in which the node was last proposed, expelled, cancelled or
    /// readmitted.
    error AlreadyProposed(address node, uint32 round);
    /// @notice The round that the kickout was signed on has another report here: it was reorged.
    error WrongReport(bytes32 expected, bytes32 got);
    /// @notice The lane is at least kickBelow + 2.
    error NotBelowThreshold(uint16 lane);
    /// @notice The evidence is 0.
    error NoEvidence();
    /// @notice The last round is older than maxAgeSeconds: an oracle that stopped reporting kicks no node out.
    error StaleScores(uint40 pushedAt);
    /// @notice Too early: before `readyAt`, or before round `round`.
    error KickNotReady(uint40 readyAt, uint256 round);
    /// @notice The proposal has expired.
    error KickDead(uint40 diesAt);
    /// @notice Fewer lanes than minOpen are open.
    error TooFewOpen(uint24 openCount, uint24 minOpen);
    /// @notice The target is zero or has no code.
    error NoTarget(address target);

    constructor(address firstTarget, address[] memory expelled) {
        // No code is required: an adapter that is deployed after its oracle is set by its future address.
        target = firstTarget;
        emit TargetSet(firstTarget);
        for (uint256 i; i < expelled.length; ++i) {
            _nodes[expelled[i]].kick = KickState.Expelled;
            _nodes[expelled[i]].expelledUntil = type(uint40).max;
            emit NodeExpelled(expelled[i]);
        }
    }

    /// @notice Returns the digest to sign for a kickout proposal under the current configuration.
    function kickDigest(bytes32 report, address node, bytes32 evidence, uint40 deadline)
        public
        view
        returns (bytes32)
    {
        return _digestOf(keccak256(abi.encode(KICK, configDigest, report, node, evidence, deadline)));
    }

    /// @notice Proposes to kick a node out. Anyone may send it; a quorum must have signed it.
    /// @param round the round it was signed on, one of the last RECENT_ROUNDS, so that it survives new rounds. It is
    /// not signed itself: it only locates `report`
    /// @param report digest of that round's report, so that a signature on a reorged round is invalid
    /// @param node the node to kick out; has an index and a low lane
    /// @param evidence hash of the public file with the reasons, not 0
    /// @param deadline unix seconds, at most MAX_TTL ahead; last block time that may include this
    /// @param signatures as many as the quorum, 65 bytes each: r, s, v
    function proposeKick(
        uint32 round,
        bytes32 report,
        address node,
        bytes32 evidence,
        uint40 deadline,
        bytes calldata signatures
    ) external {
        Head memory now_ = _head;
        Limits memory limits_ = _limits;
        _checkKicksRun(now_);
        _checkReport(now_.round, round, report);
        _checkDeadline(deadline);
        if (evidence == 0) revert NoEvidence();
        uint16 lane = _checkLow(node, limits_.kickBelow);
        _makeRoom(node, round);
        _countProposal(now_.round, limits_.maxKicksPerRound);
        _checkSignatures(kickDigest(report, node, evidence, deadline), now_.quorum, signatures);
        _pend(node, evidence, now_, limits_);
        Node memory held = _nodes[node];
        emit KickProposed(node, now_.round, lane, evidence, held.readyAt, held.diesAt);
    }

    /// @notice Executes a proposed kickout. Anyone may call it, so that no role can omit a kickout.
    function executeKick(address node) external {
        Head memory now_ = _head;
        Limits memory limits_ = _limits;
        _checkKicksRun(now_);
        Node memory held = _nodes[node];
        if (held.kick != KickState.Pending || held.config != now_.configCount) revert NoKick(node);
        uint256 readyRound = uint256(held.round) + limits_.kickRounds;
        if (block.timestamp < held.readyAt || now_.round < readyRound) revert KickNotReady(held.readyAt, readyRound);
        if (block.timestamp > held.diesAt) revert KickDead(held.diesAt);
        if (!_isFresh(now_)) revert StaleScores(now_.pushedAt);
        _checkLow(node, limits_.kickBelow);
        if (now_.openCount < limits_.minOpen) revert TooFewOpen(now_.openCount, limits_.minOpen);
        _takeFromBucket();
        _expel(node, now_.round);
        _tellTarget(node);
    }

    /// @notice Calls the target again: at any time after it refused, else every kickRounds rounds, for a node that has
    /// joined the network again. Anyone may call it and pays the gas; it takes nothing from the bucket.
    function retryKick(address node) external {
        Head memory now_ = _head;
        _checkKicksRun(now_);
        Node memory held = _nodes[node];
        if (!_expelled(held)) revert NotExpelled(node);
        if (target == address(0)) revert NoTarget(target);
        if (held.kick == KickState.Expelled) {
            uint256 readyRound = uint256(held.round) + _limits.kickRounds;
            if (now_.round < readyRound) revert KickNotReady(0, readyRound);
        }
        _nodes[node].kick = KickState.Expelled;
        _nodes[node].round = now_.round;
        _tellTarget(node);
    }

    /// @notice Cancels a pending kickout: the vetoer at any time; anyone if it cannot be executed any more (expired, or
    /// signers or rules were replaced) or the node's lane has recovered.
    /// @dev Signatures on rounds up to the current one cannot propose the node again.
    /// @param why short reason for the event
    function cancelKick(address node, bytes32 why) external {
        Node memory held = _nodes[node];
        if (held.kick != KickState.Pending) revert NoKick(node);
        bool lasts = _isLive(held) && _isLow(laneAt(indexOf(node)), _limits.kickBelow);
        if (lasts && msg.sender != vetoer) revert NotAllowed(msg.sender);
        _clear(node);
        emit KickCancelled(node, msg.sender, why);
    }

    /// @notice Ends an expulsion before its time; no other call does. Signatures on rounds up to the current one cannot
    /// propose the node again.
    function readmit(address node) external onlyAdmin {
        if (_nodes[node].kick < KickState.Expelled) revert NotExpelled(node);
        _clear(node);
        emit NodeReadmitted(node);
    }

    /// @notice Sets the contract that is called to end a membership; zero = none.
    function setTarget(address wanted) external onlyAdmin {
        if (wanted != address(0) && wanted.code.length == 0) revert NoTarget(wanted);
        target = wanted;
        emit TargetSet(wanted);
    }

    /// @dev An expired or invalidated proposal may be replaced by a new one that is signed on a later round.
    function _makeRoom(address node, uint32 round) private {
        Node memory held = _nodes[node];
        if (_expelled(held)) revert AlreadyExpelled(node);
        if (_isLive(held)) revert KickLive(node);
        // A node that was never proposed has round 0, and no kickout is signed on round 0.
        if (round <= held.round) revert AlreadyProposed(node, held.round);
        if (held.kick == KickState.Pending) emit KickCancelled(node, msg.sender, DIED);
    }

    function _pend(address node, bytes32 evidence, Head memory now_, Limits memory limits_) private {
        Node memory held = _nodes[node];
        held.kick = KickState.Pending;
        held.readyAt = uint40(block.timestamp) + limits_.vetoDelay;
        held.diesAt = held.readyAt + limits_.kickWindow;
        held.round = now_.round;
        held.config = now_.configCount;
        _nodes[node] = held;
        evidenceOf[node] = evidence;
    }

    function _expel(address node, uint32 round) private {
        uint256 until = block.timestamp + _kickLimits.kickCooldown;
        Node memory held = _nodes[node];
        held.kick = KickState.Expelled;
        held.expelledUntil = until < type(uint40).max ? uint40(until) : type(uint40).max;
        held.round = round;
        _nodes[node] = held;
    }

    function _clear(address node) private {
        _nodes[node].kick = KickState.None;
        _nodes[node].round = _head.round;
        delete evidenceOf[node];
    }

    /// @dev All state is written before the call. If the call fails, its effects are reverted.
    function _tellTarget(address node) private {
        address to = target;
        bytes32 evidence = evidenceOf[node];
        emit KickExecuted(node, evidence, to);
        if (to == address(0)) return;
        (bool done, bytes32 reason) = TargetCall.kick(to, node, evidence, _kickLimits.kickGas);
        if (done) return;
        _nodes[node].kick = KickState.Refused;
        emit KickRefused(node, to, reason);
    }

    function _checkKicksRun(Head memory now_) private view {
        _checkRunning(now_.pausedUntil);
        if (now_.kicksPaused) revert KicksRest();
    }

    function _checkReport(uint32 last, uint32 round, bytes32 report) private view {
        if (round == 0 || round > last || last - round >= RECENT_ROUNDS) revert WrongRound(last, round);
        bytes32 found = _reportOf(round);
        if (report != found) revert WrongReport(found, report);
    }

    /// @return lane the lane of `node`, which is low
    function _checkLow(address node, uint16 kickBelow) private view returns (uint16 lane) {
        lane = laneAt(indexOf(node));
        if (!_isLow(lane, kickBelow)) revert NotBelowThreshold(lane);
    }

    function _isLow(uint16 lane, uint16 kickBelow) private pure returns (bool) {
        return lane < kickBelow + Lanes.ZERO_QOS;
    }
}
