// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LimitRules, Limits} from "./Limits.sol";

/// @title Head of the rounds, limits, and recent report digests
abstract contract OracleHead {
    /// @notice One storage slot: read and written once a round.
    /// @param round the last accepted round, 0 = none
    /// @param asOf its as-of block
    /// @param pushedAt time of its acceptance, unix seconds
    /// @param pausedUntil unix seconds; end of the last pause of rounds and kickouts, from which the cool-down counts
    /// @param heldSeconds seconds of pause since the last round: scores do not age in a pause
    /// @param nodeCount indexes 0 to nodeCount - 1 are assigned
    /// @param openCount number of lanes of 2 and more
    /// @param quorum signatures required
    /// @param kicksPaused kickouts are paused, rounds are not
    /// @param configCount counter of the configurations of signers and rules; see ConfigSet
    struct Head {
        uint32 round;
        uint40 asOf;
        uint40 pushedAt;
        uint40 pausedUntil;
        uint24 heldSeconds;
        uint24 nodeCount;
        uint24 openCount;
        uint8 quorum;
        bool kicksPaused;
        uint16 configCount;
    }

    event LimitsSet(Limits limits);

    /// @notice The caller does not have the role that this call requires.
    error NotAllowed(address caller);
    /// @notice The oracle is paused until `until`.
    error Paused(uint256 until);
    /// @notice A report is not for the next round, or a kickout is not signed on one of the last RECENT_ROUNDS.
    error WrongRound(uint32 expected, uint32 got);
    /// @notice The deadline of the signed statement has passed.
    error Expired(uint40 deadline);
    /// @notice The deadline of the signed statement is more than MAX_TTL ahead.
    error DeadlineTooFar(uint40 deadline);
    /// @notice A limit is out of its range, looser than the floors, or not tighter; see Limits.
    error BadLimits();

    /// @notice Number of rounds whose report digests are kept: a kickout is signed on one of them.
    uint32 public constant RECENT_ROUNDS = 16;

    /// @notice Maximum validity of a signature, seconds.
    uint256 public constant MAX_TTL = 1 hours;

    Head internal _head;
    Limits internal _limits;

    /// @dev Written by the constructor only.
    Limits private _floors;

    /// @dev Ring of digests: round r at r % RECENT_ROUNDS. A push reads one slot of it and writes the next.
    bytes32[RECENT_ROUNDS] private _reports;

    /// @dev Whether this is an Arbitrum chain: block numbers and hashes come from ArbSys.
    bool public immutable ON_ARBITRUM;

    constructor(bool onArbitrum, Limits memory first, Limits memory loosest) {
        ON_ARBITRUM = onArbitrum;
        _floors = loosest;
        _setLimits(first);
    }

    /// @notice Returns the last round, as-of block, pause, counts of nodes, quorum and configuration.
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

    /// @notice Returns the EIP-712 digest of the last accepted report, 0 before the first; the next report names it as
    /// `prev`.
    function lastReport() external view returns (bytes32 digest) {
        return _reportOf(_head.round);
    }

    /// @dev Returns the digest of a round's report, 0 for round 0. Requires one of the last RECENT_ROUNDS rounds.
    function _reportOf(uint32 round) internal view returns (bytes32 digest) {
        return _reports[round % RECENT_ROUNDS];
    }

    function _keepReport(uint32 round, bytes32 digest) internal {
        _reports[round % RECENT_ROUNDS] = digest;
    }

    function _isFresh(Head memory now_) internal view returns (bool) {
        return block.timestamp <= uint256(now_.pushedAt) + _limits.maxAgeSeconds + now_.heldSeconds;
    }

    function _checkRunning(uint256 pausedUntil) internal view {
        if (block.timestamp < pausedUntil) revert Paused(pausedUntil);
    }

    function _checkDeadline(uint40 deadline) internal view {
        if (block.timestamp > deadline) revert Expired(deadline);
        if (deadline > block.timestamp + MAX_TTL) revert DeadlineTooFar(deadline);
    }

    function _setLimits(Limits memory wanted) internal {
        if (!LimitRules.canWork(wanted, ON_ARBITRUM) || !LimitRules.isWithin(wanted, _floors)) revert BadLimits();
        _limits = wanted;
        emit LimitsSet(wanted);
    }
}
