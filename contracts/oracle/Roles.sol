// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {OracleHead} from "./OracleHead.sol";

/// @title Who may set, stop and veto
/// @notice The admin sets (behind a timelock and several keys, it is hoped), the pauser stops for a bounded time, the
/// vetoer cancels kickouts. None of them can write a score or kick a node out.
abstract contract Roles is OracleHead {
    /// @notice Names in RoleSet.
    bytes32 public constant ADMIN = "admin";
    bytes32 public constant PAUSER = "pauser";
    bytes32 public constant VETOER = "vetoer";

    /// @notice The longest pause, seconds.
    uint40 public constant MAX_PAUSE = 7 days;

    /// @notice How long after the end of a pause no new one can begin, seconds: pauses cannot be chained.
    uint40 public constant PAUSE_COOL_DOWN = 7 days;

    address public admin;

    /// @notice Whom the admin offered the role; becomes admin by accepting it.
    address public pendingAdmin;
    address public pauser;
    address public vetoer;

    event RoleSet(bytes32 indexed role, address indexed who);
    event AdminOffered(address indexed to);
    event PausedUntil(uint40 until, address by);
    event KicksPaused(bool paused, address by);

    /// @notice Pauses last 1 to MAX_PAUSE seconds.
    error PauseTooLong(uint40 duration);
    /// @notice A pause is on, or the last one ended too short a while ago.
    error PauseCoolDown(uint256 until);
    /// @notice There is nothing to resume.
    error NotPaused();

    modifier onlyAdmin() {
        if (msg.sender != admin) revert NotAllowed(msg.sender);
        _;
    }

    constructor(address firstAdmin, address firstPauser, address firstVetoer) {
        if (firstAdmin == address(0)) revert NotAllowed(firstAdmin);
        admin = firstAdmin;
        emit RoleSet(ADMIN, firstAdmin);
        _setPauser(firstPauser);
        _setVetoer(firstVetoer);
    }

    /// @notice Offers the admin role to `to`, who must accept it; zero withdraws the offer.
    function transferAdmin(address to) external onlyAdmin {
        pendingAdmin = to;
        emit AdminOffered(to);
    }

    /// @notice Takes the admin role that was offered to the caller.
    function acceptAdmin() external {
        if (msg.sender != pendingAdmin) revert NotAllowed(msg.sender);
        admin = msg.sender;
        pendingAdmin = address(0);
        emit RoleSet(ADMIN, msg.sender);
    }

    /// @notice Names the pauser; zero = nobody.
    function setPauser(address who) external onlyAdmin {
        _setPauser(who);
    }

    /// @notice Names the vetoer; zero = nobody.
    function setVetoer(address who) external onlyAdmin {
        _setVetoer(who);
    }

    /// @notice Stops rounds and kickouts; joining and cancelling go on. Ends by itself and cannot be made longer; the
    /// next pause waits for PAUSE_COOL_DOWN, so that a stolen pauser's key costs half the time at most.
    /// @param duration seconds, 1 to MAX_PAUSE
    function pauseFor(uint40 duration) external {
        if (msg.sender != pauser) revert NotAllowed(msg.sender);
        if (duration == 0 || duration > MAX_PAUSE) revert PauseTooLong(duration);
        uint256 last = _head.pausedUntil;
        if (last != 0 && block.timestamp < last + PAUSE_COOL_DOWN) revert PauseCoolDown(last + PAUSE_COOL_DOWN);
        _setPausedUntil(uint40(block.timestamp) + duration);
    }

    /// @notice Ends a pause before its time.
    function resume() external onlyAdmin {
        if (block.timestamp >= _head.pausedUntil) revert NotPaused();
        _setPausedUntil(uint40(block.timestamp));
    }

    /// @notice Stops kickouts alone, until the admin lets them go on.
    function pauseKicks() external {
        if (msg.sender != pauser) revert NotAllowed(msg.sender);
        _setKicksPaused(true);
    }

    /// @notice Lets kickouts go on.
    function resumeKicks() external onlyAdmin {
        _setKicksPaused(false);
    }

    function _setPauser(address who) private {
        pauser = who;
        emit RoleSet(PAUSER, who);
    }

    function _setVetoer(address who) private {
        vetoer = who;
        emit RoleSet(VETOER, who);
    }

    function _setPausedUntil(uint40 until) private {
        _head.pausedUntil = until;
        emit PausedUntil(until, msg.sender);
    }

    function _setKicksPaused(bool paused) private {
        _head.kicksPaused = paused;
        emit KicksPaused(paused, msg.sender);
    }
}
