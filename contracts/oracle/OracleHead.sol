// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AsOfBlock} from "./AsOfBlock.sol";
import {Lanes} from "./Lanes.sol";

/// @title The oracle's standing values: the head of the rounds, and the limits every call is held to
abstract contract OracleHead {
    /// @notice One storage slot: read and written once a round.
    /// @param round the last accepted round, 0 = none
    /// @param asOf the block it was made for
    /// @param pushedAt when it was accepted, unix seconds
    /// @param pausedUntil unix seconds; rounds and kickouts rest before it. Kept when over: the cool-down counts from it
    /// @param nodeCount indexes 0 to nodeCount - 1 are given
    /// @param quorum signatures needed
    /// @param signerCount how many signers there are
    /// @param rules counter of the scoring rules in force
    /// @param kicksPaused kickouts rest, scores go on
    struct Head {
        uint32 round;
        uint48 asOf;
        uint40 pushedAt;
        uint40 pausedUntil;
        uint32 nodeCount;
        uint8 quorum;
        uint8 signerCount;
        uint16 rules;
        bool kicksPaused;
    }

    /// @notice What no caller can go beyond. One storage slot.
    /// @param maxStep how far a QoS may move in one round, 1 to 10000 (10000 = no limit)
    /// @param maxWords most records in one report, at least 1
    /// @param minInterval seconds between rounds
    /// @param anchorWindow most blocks between as-of and inclusion: 2 to 8191, on Arbitrum to 256
    /// @param maxAgeSeconds a last round older than this excludes nobody, at least 1
    /// @param kickBelow a QoS, 0 to 10000: only nodes below it, or not to be selected, can be kicked out
    /// @param vetoDelay seconds between proposal and execution of a kickout
    /// @param kickRounds rounds between proposal and execution of a kickout
    /// @param kickWindow seconds in which a kickout that is ready can be executed, at least 1; then it dies
    /// @param maxKicksPerRound most proposals in one round, 0 = none
    /// @param minActive a kickout never leaves fewer members than this
    struct Limits {
        uint16 maxStep;
        uint16 maxWords;
        uint32 minInterval;
        uint32 anchorWindow;
        uint32 maxAgeSeconds;
        uint16 kickBelow;
        uint32 vetoDelay;
        uint16 kickRounds;
        uint24 kickWindow;
        uint16 maxKicksPerRound;
        uint24 minActive;
    }

    event LimitsSet(Limits limits);
    event RulesSet(uint16 rules, bytes32 rulesHash);

    /// @notice The caller does not hold the role that this call needs.
    error NotAllowed(address caller);
    /// @notice The oracle rests until `until`.
    error Paused(uint256 until);
    /// @notice A report is not of the next round, or a kickout of none of the last RECENT_ROUNDS.
    error WrongRound(uint32 expected, uint32 got);
    /// @notice The deadline of what was signed is over.
    error Expired(uint40 deadline);
    /// @notice A limit is out of its range; see Limits.
    error BadLimits();
    /// @notice The counter does not rise, or the hash is 0.
    error BadRules(uint16 counter);

    /// @notice How many rounds back the digests of accepted reports are kept: a kickout is signed on one of them.
    uint32 public constant RECENT_ROUNDS = 16;

    Head internal _head;
    Limits internal _limits;

    /// @dev Ring of digests: that of round r at r % RECENT_ROUNDS. A push reads one slot of it and writes the next.
    bytes32[RECENT_ROUNDS] private _reports;

    /// @notice Hash of the rules that `head().rules` counts: sha256 of their canonical JSON.
    bytes32 public rulesHash;

    /// @dev The chain is an Arbitrum chain: block numbers and hashes come from ArbSys.
    bool public immutable ON_ARBITRUM;

    constructor(bool onArbitrum) {
        ON_ARBITRUM = onArbitrum;
    }

    /// @notice Round, as-of, pause, node count, quorum and rules at once.
    function head() external view returns (Head memory) {
        return _head;
    }

    /// @notice Every limit at once.
    function limits() external view returns (Limits memory) {
        return _limits;
    }

    /// @notice EIP-712 digest of the last accepted report, 0 before the first; the next one names it as `prev`.
    function lastReport() public view returns (bytes32 digest) {
        return _reportOf(_head.round);
    }

    /// @dev Digest of a round's report, 0 for round 0. Requires one of the last RECENT_ROUNDS rounds.
    function _reportOf(uint32 round) internal view returns (bytes32 digest) {
        return _reports[round % RECENT_ROUNDS];
    }

    function _keepReport(uint32 round, bytes32 digest) internal {
        _reports[round % RECENT_ROUNDS] = digest;
    }

    function _checkRunning(uint256 pausedUntil) internal view {
        if (block.timestamp < pausedUntil) revert Paused(pausedUntil);
    }

    function _setLimits(Limits memory wanted) internal {
        uint256 farthest = ON_ARBITRUM ? AsOfBlock.NEAR : AsOfBlock.FAR;
        bool fits = wanted.maxStep != 0 && wanted.maxStep <= Lanes.MAX_QOS && wanted.maxWords != 0
            && wanted.anchorWindow > 1 && wanted.anchorWindow <= farthest && wanted.maxAgeSeconds != 0
            && wanted.kickBelow <= Lanes.MAX_QOS && wanted.kickWindow != 0;
        if (!fits) revert BadLimits();
        _limits = wanted;
        emit LimitsSet(wanted);
    }

    function _setRules(uint16 counter, bytes32 hash) internal {
        if (counter <= _head.rules || hash == 0) revert BadRules(counter);
        _head.rules = counter;
        rulesHash = hash;
        emit RulesSet(counter, hash);
    }
}
