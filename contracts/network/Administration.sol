// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {PackedViews} from "./PackedViews.sol";

/// @title Who may set what
/// @notice The admin, in a real network a timelock, names the dispatcher, the treasury and the oracle, and sets the
/// limits of time and stake. The admin moves no money and ends no task or membership.
abstract contract Administration is PackedViews {
    /// @notice What the admin may change. It holds at once, also for tasks that are under way; but rejoinDelay and
    /// kickCooldown hold for those who leave from now on.
    /// @param minStake least stake to join, wei
    /// @param validationTimeout seconds that a creator has to validate, 1 to MAX_WAIT
    /// @param groupTimeout seconds that an answer waits for the rest of its group, 1 to MAX_WAIT
    /// @param revealTimeout seconds that a group's nodes have to reveal, at least MIN_REVEAL
    /// @param revalidationWindow seconds that a contested stake waits for a second group, at most MAX_WAIT
    /// @param rejoinDelay seconds between leaving and joining again
    /// @param kickCooldown seconds that a kicked-out address stays out, FOREVER = until readmitted
    struct Settings {
        uint96 minStake;
        uint24 validationTimeout;
        uint24 groupTimeout;
        uint16 revealTimeout;
        uint24 revalidationWindow;
        uint32 rejoinDelay;
        uint32 kickCooldown;
    }

    /// @notice As a kickCooldown: no time is enough.
    uint32 public constant FOREVER = type(uint32).max;

    /// @notice Longest validationTimeout and groupTimeout in seconds, so that no setting can lock money up.
    uint24 public constant MAX_WAIT = 30 days;

    /// @notice Shortest revealTimeout in seconds: a few blocks that are full must not make an honest node late.
    uint16 public constant MIN_REVEAL = 1 minutes;

    /// @notice Sets the roles and limits; the oracle has no say in it.
    address public admin;

    /// @notice Who must accept to become admin, 0 = nobody.
    address public offeredAdmin;

    /// @notice Queues tasks, starts them on nodes, and drops them from the queue.
    address public dispatcher;

    /// @notice Where slashed stakes and the tolls of timeouts are credited. Best an address that nobody who creates
    /// tasks has a share in: a creator that is its own treasury pays no toll.
    address public treasury;

    /// @notice Whether the fee of a group is shared by points among those who are right, or the fastest of them takes it
    /// all. It holds for groups created from now on.
    bool public paysByPoints;

    /// @dev The widths of Settings' fields, as _returnFields takes them.
    bytes32 private constant SETTINGS_FIELDS = bytes32(bytes7(hex"0c030302030404"));

    Settings internal _settings;

    /// @notice `offered` may accept to become admin; 0 withdraws the offer.
    event AdminOffered(address indexed offered);

    /// @notice `admin` is the admin from now on.
    event AdminChanged(address indexed admin);

    /// @notice `dispatcher` is the dispatcher from now on.
    event DispatcherChanged(address indexed dispatcher);

    /// @notice Slashed stakes and tolls go to `treasury` from now on.
    event TreasuryChanged(address indexed treasury);

    /// @notice Groups created from now on pay by points, or the fastest alone.
    event PaymentChanged(bool byPoints);

    /// @notice These limits hold from now on.
    event SettingsChanged(Settings settings);

    /// @notice The sender is not the admin.
    error NotAdmin(address sender);

    /// @notice The sender is not the one to whom the admin offered the role.
    error NotOffered(address sender);

    /// @notice The sender is not the dispatcher.
    error NotDispatcher(address sender);

    /// @notice A role cannot be held by address 0.
    error ZeroAddress();

    /// @notice A timeout is 0 or above MAX_WAIT, revealTimeout below MIN_REVEAL, or revalidationWindow above MAX_WAIT.
    error BadSettings();

    modifier onlyAdmin() {
        _checkAdmin();
        _;
    }

    modifier onlyDispatcher() {
        _checkDispatcher();
        _;
    }

    constructor(address admin_, address dispatcher_, address treasury_, uint96 minStake) {
        if (admin_ == address(0)) revert ZeroAddress();
        admin = admin_;
        emit AdminChanged(admin_);
        _setDispatcher(dispatcher_);
        _setTreasury(treasury_);
        _setSettings(
            Settings({
                minStake: minStake,
                validationTimeout: 10 minutes,
                groupTimeout: 1 hours,
                revealTimeout: 2 minutes,
                revalidationWindow: 1 days,
                rejoinDelay: 30 minutes,
                kickCooldown: FOREVER
            })
        );
    }

    /// @notice The limits that hold now.
    function settings() external view returns (Settings calldata found) {
        uint256 slot;
        // It is never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := _settings.slot
            found := 0
        }
        _returnFields(slot, SETTINGS_FIELDS);
    }

    /// @notice Offers the admin's role; it changes hands when the other side accepts.
    function offerAdmin(address to) external onlyAdmin {
        offeredAdmin = to;
        emit AdminOffered(to);
    }

    /// @notice Takes the admin's role as offered.
    function acceptAdmin() external {
        if (msg.sender != offeredAdmin) revert NotOffered(msg.sender);
        admin = msg.sender;
        offeredAdmin = address(0);
        emit AdminChanged(msg.sender);
    }

    /// @notice Names the dispatcher.
    function setDispatcher(address to) external onlyAdmin {
        _setDispatcher(to);
    }

    /// @notice Names who is credited with slashed stakes and tolls from now on.
    function setTreasury(address to) external onlyAdmin {
        _setTreasury(to);
    }

    /// @notice Says how groups pay that are created from now on.
    function setPayment(bool byPoints) external onlyAdmin {
        paysByPoints = byPoints;
        emit PaymentChanged(byPoints);
    }

    /// @notice Changes the limits.
    function setSettings(Settings calldata to) external onlyAdmin {
        _setSettings(to);
    }

    function _checkAdmin() private view {
        if (msg.sender != admin) revert NotAdmin(msg.sender);
    }

    function _checkDispatcher() private view {
        if (msg.sender != dispatcher) revert NotDispatcher(msg.sender);
    }

    function _setDispatcher(address to) private {
        if (to == address(0)) revert ZeroAddress();
        dispatcher = to;
        emit DispatcherChanged(to);
    }

    function _setTreasury(address to) private {
        if (to == address(0)) revert ZeroAddress();
        treasury = to;
        emit TreasuryChanged(to);
    }

    function _setSettings(Settings memory to) private {
        if (to.validationTimeout == 0 || to.validationTimeout > MAX_WAIT) revert BadSettings();
        if (to.groupTimeout == 0 || to.groupTimeout > MAX_WAIT) revert BadSettings();
        if (to.revealTimeout < MIN_REVEAL || to.revalidationWindow > MAX_WAIT) revert BadSettings();
        _settings = to;
        emit SettingsChanged(to);
    }
}
