// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {RoundHead} from "./RoundHead.sol";

/// @title The functions of OpenZeppelin's TimelockController that the oracle calls
interface ITimelock {
    function hasRole(bytes32 role, address account) external view returns (bool);
    function cancel(bytes32 id) external;
}

/// @title Admin, pauser and vetoer
/// @notice The admin changes settings; it should be a timelock, so that users see a change in advance. The pauser
/// tightens, and pauses, at once: rounds for a bounded time, kickouts until the admin resumes them. The vetoer cancels
/// kickouts, and scheduled operations of the timelock. None of them can write a score or kick a node out.
///  Two of the three parties (the timelock's proposers, the pauser, the vetoer) can replace the third. The admin
/// replaces the pauser, who cannot cancel anything. A stolen vetoer would cancel the operation that replaces it, so a
/// proposer may offer the role to a new vetoer without the timelock: the offer takes effect after OFFER_DELAY and the
/// vetoer cannot withdraw it. The pauser can withdraw it, so that a stolen proposer key cannot remove the vetoer.
/// @dev The oracle must be the timelock's only canceller beside the proposers. A vetoer that is a canceller itself
/// could still cancel everything after its replacement.
abstract contract OracleRoles is RoundHead {
    /// @notice Name of the admin's role in RoleSet.
    bytes32 public constant ADMIN = "admin";
    /// @notice Name of the pauser's role in RoleSet.
    bytes32 public constant PAUSER = "pauser";
    /// @notice Name of the vetoer's role in RoleSet.
    bytes32 public constant VETOER = "vetoer";

    /// @notice Maximum length of a pause, seconds.
    uint40 public constant MAX_PAUSE = 7 days;

    /// @notice Seconds between the offer of the vetoer's role and the earliest time at which it can be accepted.
    uint40 public constant OFFER_DELAY = 7 days;

    /// @dev Role of those that schedule the timelock's operations.
    bytes32 private constant PROPOSER = keccak256("PROPOSER_ROLE");

    /// @notice Address that changes settings; should be a timelock.
    address public admin;

    /// @notice Address to which the admin offered the role; becomes admin by accepting it.
    address public pendingAdmin;
    /// @notice Address that cancels kickouts and scheduled operations; zero = none.
    address public vetoer;
    /// @notice Address that may pause, strike roots and tighten limits; zero = none.
    address public pauser;

    /// @notice Length of the last pause, seconds: the next may begin as long after its end.
    uint24 public pauseSeconds;

    /// @dev Whether the scores were fresh when the last pause began. Only then the pause stops their ageing.
    bool private _pauseHolds;

    /// @notice Address to which a proposer offered the vetoer's role; zero = none.
    address public pendingVetoer;

    /// @notice Unix seconds from which the pending vetoer can accept the role.
    uint40 public vetoerOfferedFrom;

    /// @notice `who` has the role from now on; zero = no holder.
    event RoleSet(bytes32 indexed role, address indexed who);
    /// @notice `to` can accept the admin role; zero = the offer was withdrawn.
    event AdminOffered(address indexed to);
    /// @notice `to` can accept the vetoer's role from `from` on, unix seconds; zero = the offer was withdrawn.
    event VetoerOffered(address indexed to, uint40 from, address by);
    /// @notice Rounds and kickouts are paused until `until`, unix seconds; the current time if a pause was ended early.
    event PausedUntil(uint40 until, address by);
    /// @notice Kickouts were paused or resumed.
    event KicksPaused(bool paused, address by);

    /// @notice The length of a pause is not 1 to MAX_PAUSE seconds.
    error PauseTooLong(uint40 duration);
    /// @notice A pause is active, or its cool-down lasts until `until`.
    error PauseCoolDown(uint256 until);
    /// @notice The oracle is not paused.
    error NotPaused();
    /// @notice The offered role can be accepted from `from` on, unix seconds.
    error OfferTooRecent(uint40 from);

    modifier onlyAdmin() {
        if (msg.sender != admin) revert NotAllowed(msg.sender);
        _;
    }

    modifier onlyPauser() {
        if (msg.sender != pauser) revert NotAllowed(msg.sender);
        _;
    }

    modifier onlyVetoer() {
        if (msg.sender != vetoer) revert NotAllowed(msg.sender);
        _;
    }

    constructor(address firstAdmin, address firstPauser, address firstVetoer) {
        if (firstAdmin == address(0)) revert NotAllowed(firstAdmin);
        admin = firstAdmin;
        emit RoleSet(ADMIN, firstAdmin);
        _setPauser(firstPauser);
        _setVetoer(firstVetoer);
    }

    // --- Replacing roles ---

    /// @notice Offers the admin role to `to`, which must accept it; zero withdraws the offer.
    function transferAdmin(address to) external onlyAdmin {
        pendingAdmin = to;
        emit AdminOffered(to);
    }

    /// @notice Accepts the admin role that was offered to the caller.
    function acceptAdmin() external {
        if (msg.sender != pendingAdmin) revert NotAllowed(msg.sender);
        admin = msg.sender;
        pendingAdmin = address(0);
        emit RoleSet(ADMIN, msg.sender);
    }

    /// @notice Sets the pauser; zero = none.
    function setPauser(address who) external onlyAdmin {
        _setPauser(who);
    }

    /// @notice Sets the vetoer; zero = none. A pending offer of the role ends.
    function setVetoer(address who) external onlyAdmin {
        _setVetoer(who);
    }

    /// @notice Offers the vetoer's role to `to`, which can accept it after OFFER_DELAY. Callable by the proposers of
    /// the timelock that is admin; reverts without a reason if the admin is no timelock. A new offer replaces the
    /// pending one.
    function offerVetoer(address to) external {
        if (!ITimelock(admin).hasRole(PROPOSER, msg.sender)) revert NotAllowed(msg.sender);
        _offerVetoer(to, uint40(block.timestamp) + OFFER_DELAY);
    }

    /// @notice Withdraws the offer of the vetoer's role. Callable by the admin, and by the pauser unless it is the
    /// vetoer too.
    function withdrawVetoerOffer() external {
        if (msg.sender != admin && (msg.sender != pauser || msg.sender == vetoer)) revert NotAllowed(msg.sender);
        _offerVetoer(address(0), 0);
    }

    /// @notice Accepts the vetoer's role that was offered to the caller.
    function acceptVetoer() external {
        if (msg.sender != pendingVetoer) revert NotAllowed(msg.sender);
        if (block.timestamp < vetoerOfferedFrom) revert OfferTooRecent(vetoerOfferedFrom);
        _setVetoer(msg.sender);
    }

    /// @notice Cancels a scheduled operation of the timelock that is admin. The oracle must be its canceller.
    /// @param id the timelock's id of the operation
    function cancelOperation(bytes32 id) external onlyVetoer {
        ITimelock(admin).cancel(id);
    }

    // --- Pauses ---

    /// @notice Pauses rounds and kickouts; views, clear and veto still work, and the last scores stay valid. The pause
    /// ends by itself and cannot be extended; after it the oracle runs for at least as long, so that a stolen pauser
    /// key stops it for half the time at most.
    /// @param duration seconds, 1 to MAX_PAUSE
    function pauseFor(uint40 duration) external onlyPauser {
        if (duration == 0 || duration > MAX_PAUSE) revert PauseTooLong(duration);
        Head memory now_ = _head;
        uint256 turn = uint256(now_.pausedUntil) + pauseSeconds;
        if (block.timestamp < turn) revert PauseCoolDown(turn);
        pauseSeconds = uint24(duration);
        _pauseHolds = _isFresh(now_);
        if (_pauseHolds) now_.heldSeconds += uint24(duration);
        _setPausedUntil(now_, uint40(block.timestamp) + duration);
    }

    /// @notice Ends a pause before its time; the rest of it counts neither for the cool-down nor for the scores' age.
    function resume() external onlyAdmin {
        Head memory now_ = _head;
        if (block.timestamp >= now_.pausedUntil) revert NotPaused();
        uint24 rest = uint24(now_.pausedUntil - block.timestamp);
        pauseSeconds -= rest;
        if (_pauseHolds) now_.heldSeconds -= rest;
        _setPausedUntil(now_, uint40(block.timestamp));
    }

    /// @notice Pauses kickouts only, until the admin resumes them.
    function pauseKicks() external onlyPauser {
        _setKicksPaused(true);
    }

    /// @notice Resumes kickouts.
    function resumeKicks() external onlyAdmin {
        _setKicksPaused(false);
    }

    function _setPauser(address who) private {
        pauser = who;
        emit RoleSet(PAUSER, who);
    }

    function _setVetoer(address who) private {
        (pendingVetoer, vetoerOfferedFrom) = (address(0), 0);
        vetoer = who;
        emit RoleSet(VETOER, who);
    }

    function _offerVetoer(address to, uint40 from) private {
        (pendingVetoer, vetoerOfferedFrom) = (to, from);
        emit VetoerOffered(to, from, msg.sender);
    }

    function _setPausedUntil(Head memory now_, uint40 until) private {
        now_.pausedUntil = until;
        _head = now_;
        emit PausedUntil(until, msg.sender);
    }

    function _setKicksPaused(bool paused) private {
        _head.kicksPaused = paused;
        emit KicksPaused(paused, msg.sender);
    }
}
