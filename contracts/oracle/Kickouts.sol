// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lanes} from "./Lanes.sol";
import {NodeScores} from "./NodeScores.sol";
import {Roles} from "./Roles.sol";
import {SignerQuorum} from "./SignerQuorum.sol";

/// @title Kickouts: slower, narrower and harder to forge than a score
/// @notice A quorum proposes; some seconds and some newer rounds later anyone executes, if the node's lane is still
/// low, the scores are fresh, the node is still the same member, and the bucket is not empty. Stopping the oracle stops
/// kickouts.
abstract contract Kickouts is NodeScores, SignerQuorum, Roles {
    /// @notice A proposed kickout.
    /// @param readyAt unix seconds; earliest execution
    /// @param diesAt unix seconds; latest execution, so that no old proposal lies in wait for the node's next bad day
    /// @param round the round it was proposed in
    /// @param live neither cancelled nor executed
    /// @param evidence hash of the public file that tells why
    struct Kick {
        uint40 readyAt;
        uint40 diesAt;
        uint32 round;
        bool live;
        bytes32 evidence;
    }

    /// @notice Token bucket of executed kickouts: a stolen quorum can remove at most `most` nodes at once.
    /// @param most the bucket's size, 0 = no kickouts
    /// @param left what was in it at `since`
    /// @param perFrame how many flow in each frame
    /// @param frame seconds, at least 1
    /// @param since unix seconds; start of the frame that `left` was counted in
    struct Bucket {
        uint16 most;
        uint16 left;
        uint16 perFrame;
        uint32 frame;
        uint40 since;
    }

    bytes32 private constant KICK =
        keccak256("Kick(uint32 round,bytes32 report,uint256 index,bytes32 evidence,uint40 deadline)");

    Bucket private _bucket;
    mapping(uint256 => Kick) private _kicks;
    uint32 private _countedRound;
    uint16 private _kicksInRound;

    event KickProposed(
        uint256 indexed index, address indexed node, uint32 round, uint16 lane, bytes32 evidence, uint40 readyAt
    );
    event KickCancelled(uint256 indexed index, address indexed by, bytes32 why);
    event KickExecuted(uint256 indexed index, address indexed node, uint32 round, bytes32 evidence);
    event BucketSet(uint16 most, uint16 perFrame, uint32 frame);

    /// @notice Kickouts rest until the admin lets them go on.
    error KicksRest();
    /// @notice No kickout of this index is live.
    error NoKick(uint256 index);
    /// @notice A kickout of this index is live already.
    error KickLive(uint256 index);
    /// @notice The index was proposed in this round or a newer one: signatures of a vetoed kickout are not good again.
    error AlreadyProposed(uint256 index, uint32 round);
    /// @notice The round that the kickout was signed on has another report here: it was reorged.
    error WrongReport(bytes32 expected, bytes32 got);
    /// @notice The index is not given, retired, or its node is no member.
    error NotMember(uint256 index);
    /// @notice The lane is 0 (never reported) or at least kickBelow + 2.
    error NotBelowThreshold(uint16 lane);
    /// @notice Evidence is never 0.
    error NoEvidence();
    /// @notice The last round is older than maxAgeSeconds: a dead oracle kicks nobody out.
    error StaleScores(uint40 pushedAt);
    /// @notice As many kickouts as one round may have are proposed.
    error KickLimit(uint16 maxKicksPerRound);
    /// @notice Too early: before `readyAt`, or before round `round`.
    error KickNotReady(uint40 readyAt, uint256 round);
    /// @notice Too late.
    error KickDead(uint40 diesAt);
    /// @notice The bucket of executed kickouts is empty until `refillAt` (0 = it never refills).
    error BucketEmpty(uint256 refillAt);
    /// @notice The network would be left with fewer members than minActive.
    error TooFewMembers(uint256 active, uint256 minActive);

    constructor(uint16 most, uint16 perFrame, uint32 frame) {
        _bucket.left = most;
        _setBucket(most, perFrame, frame);
    }

    /// @notice The kickout of an index; all zero when there was none.
    function kickOf(uint256 index) external view returns (Kick memory) {
        return _kicks[index];
    }

    /// @notice The bucket as it stands now.
    function bucket() external view returns (Bucket memory) {
        return _refilled();
    }

    /// @notice What signers sign to propose a kickout.
    function kickDigest(uint32 round, bytes32 report, uint256 index, bytes32 evidence, uint40 deadline)
        public
        view
        returns (bytes32)
    {
        return _digestOf(keccak256(abi.encode(KICK, round, report, index, evidence, deadline)));
    }

    /// @notice Proposes to kick out the node of `index`. Anyone may send it; a quorum has signed it.
    /// @param round the round it was signed on, one of the last RECENT_ROUNDS: it outlives the rounds that come meanwhile
    /// @param report digest of that round's report: signed on a round that was reorged, it is nobody's
    /// @param index the node's current index
    /// @param evidence hash of the public file that tells why, not 0
    /// @param deadline unix seconds; the latest block that may include this
    /// @param signatures as many as the quorum, 65 bytes each: r, s, v
    function proposeKick(
        uint32 round,
        bytes32 report,
        uint256 index,
        bytes32 evidence,
        uint40 deadline,
        bytes calldata signatures
    ) external {
        Head memory now_ = _head;
        Limits memory limits_ = _limits;
        _checkKicksRun(now_);
        _checkReport(now_.round, round, report);
        if (block.timestamp > deadline) revert Expired(deadline);
        if (evidence == 0) revert NoEvidence();
        uint16 lane = _checkTarget(index, limits_.kickBelow);
        _makeRoom(index, round);
        _countProposal(now_.round, limits_.maxKicksPerRound);
        _checkSignatures(kickDigest(round, report, index, evidence, deadline), now_.quorum, signatures);
        uint40 readyAt = uint40(block.timestamp) + limits_.vetoDelay;
        _kicks[index] = Kick(readyAt, readyAt + limits_.kickWindow, now_.round, true, evidence);
        emit KickProposed(index, nodeAt(index), now_.round, lane, evidence, readyAt);
    }

    /// @notice Executes a proposed kickout. Anyone may call it, so that nobody can selectively forget.
    /// @dev The network is called without try: a caller who starves the inner call of gas must not burn the kickout.
    function executeKick(uint256 index) external {
        Head memory now_ = _head;
        Limits memory limits_ = _limits;
        _checkKicksRun(now_);
        Kick memory kick = _kicks[index];
        if (!kick.live) revert NoKick(index);
        uint256 readyRound = uint256(kick.round) + limits_.kickRounds;
        if (block.timestamp < kick.readyAt || now_.round < readyRound) revert KickNotReady(kick.readyAt, readyRound);
        if (block.timestamp > kick.diesAt) revert KickDead(kick.diesAt);
        if (!isFresh()) revert StaleScores(now_.pushedAt);
        _checkTarget(index, limits_.kickBelow);
        uint256 active = NETWORK.activeCount();
        if (active <= limits_.minActive) revert TooFewMembers(active, limits_.minActive);
        _takeFromBucket();
        _kicks[index].live = false;
        address node = nodeAt(index);
        emit KickExecuted(index, node, now_.round, kick.evidence);
        NETWORK.kickOut(node, kick.evidence);
    }

    /// @notice Cancels a kickout: the vetoer at any time; anyone when it is too late for it, the node is no member
    /// under this index any more, or its lane has recovered.
    /// @param why a short word for the record
    function cancelKick(uint256 index, bytes32 why) external {
        Kick memory kick = _kicks[index];
        if (!kick.live) revert NoKick(index);
        bool dead = block.timestamp > kick.diesAt || !_isMember(index) || !_isLow(laneAt(index), _limits.kickBelow);
        if (!dead && msg.sender != vetoer) revert NotAllowed(msg.sender);
        _cancel(index, why);
    }

    /// @notice Sets the bucket; what flowed in under the old setting stays, as far as there is room.
    /// @param most the bucket's size, 0 = no kickouts
    /// @param perFrame how many flow in each frame
    /// @param frame seconds, at least 1
    function setBucket(uint16 most, uint16 perFrame, uint32 frame) external onlyAdmin {
        _bucket = _refilled();
        _setBucket(most, perFrame, frame);
    }

    /// @inheritdoc NodeScores
    function _onRetired(uint256 index) internal override {
        if (_kicks[index].live) _cancel(index, "rejoined");
    }

    function _cancel(uint256 index, bytes32 why) private {
        _kicks[index].live = false;
        emit KickCancelled(index, msg.sender, why);
    }

    /// @dev A proposal that died of age makes room for a new one, which is signed on a round after it.
    function _makeRoom(uint256 index, uint32 round) private {
        Kick memory kick = _kicks[index];
        if (round <= kick.round) revert AlreadyProposed(index, round);
        if (!kick.live) return;
        if (block.timestamp <= kick.diesAt) revert KickLive(index);
        _cancel(index, "too late");
    }

    function _countProposal(uint32 round, uint16 most) private {
        uint16 before = _countedRound == round ? _kicksInRound : 0;
        if (before >= most) revert KickLimit(most);
        _countedRound = round;
        _kicksInRound = before + 1;
    }

    function _setBucket(uint16 most, uint16 perFrame, uint32 frame) private {
        if (frame == 0) revert BadLimits();
        uint16 left = _bucket.left < most ? _bucket.left : most;
        _bucket = Bucket(most, left, perFrame, frame, uint40(block.timestamp));
        emit BucketSet(most, perFrame, frame);
    }

    function _takeFromBucket() private {
        Bucket memory now_ = _refilled();
        if (now_.left == 0) {
            bool refills = now_.perFrame != 0 && now_.most != 0;
            revert BucketEmpty(refills ? uint256(now_.since) + now_.frame : 0);
        }
        --now_.left;
        _bucket = now_;
    }

    function _refilled() private view returns (Bucket memory now_) {
        now_ = _bucket;
        uint256 frames = (block.timestamp - now_.since) / now_.frame;
        uint256 left = now_.left + frames * now_.perFrame;
        now_.left = left > now_.most ? now_.most : uint16(left);
        now_.since += uint40(frames * now_.frame);
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

    /// @return lane the lane of `index`, whose node is a member that may be kicked out
    function _checkTarget(uint256 index, uint16 kickBelow) private view returns (uint16 lane) {
        if (!_isMember(index)) revert NotMember(index);
        lane = laneAt(index);
        if (!_isLow(lane, kickBelow)) revert NotBelowThreshold(lane);
    }

    function _isMember(uint256 index) private view returns (bool) {
        return _isCurrent(index) && NETWORK.isMember(nodeAt(index));
    }

    function _isLow(uint16 lane, uint16 kickBelow) private pure returns (bool) {
        return lane != 0 && lane < kickBelow + Lanes.ZERO_QOS;
    }
}
