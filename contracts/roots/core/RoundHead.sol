// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSRoots} from "../IQoSRoots.sol";
import {Limits, RoundLimits} from "./RoundLimits.sol";

/// @title Head of the rounds, limits, and the roots of the last rounds
abstract contract RoundHead is IQoSRoots {
    /// @notice One storage slot: read and written once a round.
    /// @param round the last accepted round, 0 = none
    /// @param asOf its as-of block
    /// @param pushedAt time of its acceptance, unix seconds
    /// @param pausedUntil unix seconds; end of the last pause of rounds and kickouts, from which the cool-down counts
    /// @param heldSeconds seconds of pause since the last round: scores do not age in a pause
    /// @param quorum signatures required
    /// @param kicksPaused kickouts are paused, rounds are not
    /// @param configCount counter of the configurations of signers and rules; see ConfigSet
    /// @param roundConfig configCount under which the last round was signed
    struct Head {
        uint32 round;
        uint40 asOf;
        uint40 pushedAt;
        uint40 pausedUntil;
        uint24 heldSeconds;
        uint8 quorum;
        bool kicksPaused;
        uint16 configCount;
        uint16 roundConfig;
    }

    /// @notice The limits were set or tightened.
    event LimitsSet(Limits limits);

    /// @notice The caller does not have the role that this call requires.
    error NotAllowed(address caller);
    /// @notice The oracle is paused until `until`, unix seconds.
    error Paused(uint256 until);
    /// @notice The report is not for the next round, or the round to strike from is not one of the last KEPT.
    error WrongRound(uint32 expected, uint32 got);
    /// @notice The report, or the last round, was signed under another configuration of signers and rules.
    error WrongConfig(uint16 expected, uint16 got);
    /// @notice The deadline of the signed report has passed.
    error Expired(uint40 deadline);
    /// @notice The deadline of the signed report is more than MAX_TTL ahead.
    error DeadlineTooFar(uint40 deadline);
    /// @notice A limit is out of its range, looser than the floors, or not tighter; see Limits.
    error BadLimits();

    /// @notice Maximum validity of a signature, seconds.
    uint256 public constant MAX_TTL = 1 hours;

    /// @notice Whether this is an Arbitrum chain: block numbers and hashes come from ArbSys.
    bool public immutable ON_ARBITRUM;

    /// @inheritdoc IQoSRoots
    uint32 public immutable KEPT;

    /// @inheritdoc IQoSRoots
    uint32 public immutable LAG;

    Head internal _head;
    Limits internal _limits;

    /// @dev Written by the constructor only.
    Limits private _floors;
    Limits private _tightest;

    /// @dev Ring of roots: round r at r % KEPT. A push reads one slot of it and writes the next.
    mapping(uint256 place => bytes32) private _roots;

    /// @param kept more than `lag`
    constructor(
        bool onArbitrum,
        uint32 kept,
        uint32 lag,
        Limits memory first,
        Limits memory loosest,
        Limits memory tightest_
    ) {
        if (kept <= lag || !RoundLimits.canWork(tightest_, lag, onArbitrum)) revert BadLimits();
        (ON_ARBITRUM, KEPT, LAG) = (onArbitrum, kept, lag);
        (_floors, _tightest) = (loosest, tightest_);
        _setLimits(first);
    }

    /// @notice Returns the last round, as-of block, pause, quorum and configuration.
    function head() external view returns (Head memory) {
        return _head;
    }

    /// @notice Returns all limits.
    function limits() external view returns (Limits memory) {
        return _limits;
    }

    /// @notice Returns the loosest limits that the admin can ever set, fixed by the constructor. Their anchorWindow is
    /// not used.
    function floors() external view returns (Limits memory) {
        return _floors;
    }

    /// @notice Returns the tightest limits that the pauser can ever set, fixed by the constructor: a network must still
    /// work under them. Their anchorWindow must be in range, and is not used.
    function tightest() external view returns (Limits memory) {
        return _tightest;
    }

    /// @notice Returns the root of the last round, 0 before the first and after a strike; the next report names it as
    /// `prev`.
    function lastRoot() external view returns (bytes32) {
        return _rootAt(_head.round);
    }

    /// @inheritdoc IQoSRoots
    function last() external view returns (uint32 round, uint48 asOf, uint40 pushedAt) {
        Head memory now_ = _head;
        return (now_.round, now_.asOf, now_.pushedAt);
    }

    /// @inheritdoc IQoSRoots
    function rootOf(uint32 round) public view returns (bytes32 root) {
        uint32 latest = _head.round;
        if (round == 0 || round > latest || latest - round >= KEPT) revert NoRoot(round);
        root = _rootAt(round);
        if (root == 0) revert NoRoot(round);
    }

    /// @inheritdoc IQoSRoots
    function isFresh() external view returns (bool) {
        return _isFresh(_head);
    }

    /// @dev Requires round 0 or one of the last KEPT rounds. 0 for round 0 and for a struck round.
    function _rootAt(uint32 round) internal view returns (bytes32) {
        return _roots[round % KEPT];
    }

    function _keepRoot(uint32 round, bytes32 root) internal {
        _roots[round % KEPT] = root;
    }

    function _isFresh(Head memory now_) internal view returns (bool) {
        return block.timestamp <= uint256(now_.pushedAt) + _limits.maxAgeSeconds + now_.heldSeconds;
    }

    function _checkRunning(uint256 pausedUntil) internal view {
        if (block.timestamp < pausedUntil) revert Paused(pausedUntil);
    }

    function _setLimits(Limits memory wanted) internal {
        if (!RoundLimits.canWork(wanted, LAG, ON_ARBITRUM) || !RoundLimits.isWithin(wanted, _floors)) {
            revert BadLimits();
        }
        _limits = wanted;
        emit LimitsSet(wanted);
    }

    function _tightenLimits(Limits memory wanted) internal {
        if (!RoundLimits.isTightening(wanted, _limits, _tightest)) revert BadLimits();
        _setLimits(wanted);
    }
}
