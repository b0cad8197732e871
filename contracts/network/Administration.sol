// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {PackedViews} from "./PackedViews.sol";

/// @title Admin, roles and settings
/// @notice The admin, in a real network a timelock, sets the dispatcher, the treasury, the oracle, and the limits of
/// time and stake. The admin moves no money and ends no task or membership.
abstract contract Administration is PackedViews {
    /// @notice Limits that the admin may change. A change applies at once, also to tasks that are under way; but
    /// rejoinDelay and kickCooldown apply to nodes that leave from now on.
    /// @param minStake minimum stake to join, wei
    /// @param validationTimeout seconds that a creator has to validate, 1 to MAX_WAIT
    /// @param groupTimeout seconds from the latest deadline of an incomplete group until it may be given up, 1 to
    /// MAX_WAIT
    /// @param revealTimeout seconds that a group's nodes have to reveal, at least MIN_REVEAL
    /// @param revalidationWindow seconds that a contested stake is held for a second group, at most MAX_WAIT
    /// @param rejoinDelay seconds between leaving and joining again
    /// @param kickCooldown seconds before a kicked-out address may rejoin, FOREVER = until readmitted
    struct Settings {
        uint96 minStake;
        uint24 validationTimeout;
        uint24 groupTimeout;
        uint16 revealTimeout;
        uint24 revalidationWindow;
        uint32 rejoinDelay;
        uint32 kickCooldown;
    }

    /// @notice The kickCooldown that never ends.
    uint32 public constant FOREVER = type(uint32).max;

    /// @dev Maximum validationTimeout and groupTimeout in seconds, so that no setting can lock money up.
    uint24 internal constant MAX_WAIT = 30 days;

    /// @dev Minimum revealTimeout in seconds: a few full blocks must not make an honest node late.
    uint16 internal constant MIN_REVEAL = 1 minutes;

    /// @notice The admin, which sets the roles and limits; the oracle has no influence on them.
    address public admin;

    /// @notice Address that may accept to become admin, 0 = none.
    address public offeredAdmin;

    /// @notice The dispatcher, which queues tasks, starts them on nodes, and drops them from the queue.
    address public dispatcher;

    /// @notice The treasury, which is credited with slashed stakes and the tolls of timeouts. No task creator should own
    /// a share of it, because a creator that is its own treasury pays no toll.
    address public treasury;

    /// @notice Whether the fee of a group is shared by points among the right answers, or paid to the fastest of them.
    /// Applies to groups created from now on.
    bool public paysByPoints;

    /// @dev The widths of Settings' fields, for _returnFields.
    bytes32 private immutable SETTINGS_FIELDS = bytes32(bytes7(hex"0c030302030404"));

    Settings internal _settings;

    /// @notice `offered` may accept to become admin; 0 = the offer is withdrawn.
    event AdminOffered(address indexed offered);

    /// @notice The admin was set to `admin`.
    event AdminChanged(address indexed admin);

    /// @notice The dispatcher was set to `dispatcher`.
    event DispatcherChanged(address indexed dispatcher);

    /// @notice Slashed stakes and tolls go to `treasury` from now on.
    event TreasuryChanged(address indexed treasury);

    /// @notice Groups created from now on share the fee by points, or pay only the fastest node.
    event PaymentChanged(bool byPoints);

    /// @notice These limits apply from now on.
    event SettingsChanged(Settings settings);

    /// @notice The sender is not the admin.
    error NotAdmin(address sender);

    /// @notice The sender is not the address to which the admin offered the role.
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

    /// @notice Returns the current limits.
    function settings() external view returns (Settings calldata found) {
        uint256 slot;
        // Never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := _settings.slot
            found := 0
        }
        _returnFields(slot, SETTINGS_FIELDS);
    }

    /// @notice Offers the admin role to `to`, which must accept it; 0 withdraws the offer.
    function offerAdmin(address to) external onlyAdmin {
        offeredAdmin = to;
        emit AdminOffered(to);
    }

    /// @notice Accepts the admin role that was offered to the sender.
    function acceptAdmin() external {
        if (msg.sender != offeredAdmin) revert NotOffered(msg.sender);
        admin = msg.sender;
        offeredAdmin = address(0);
        emit AdminChanged(msg.sender);
    }

    /// @notice Sets the dispatcher.
    function setDispatcher(address to) external onlyAdmin {
        _setDispatcher(to);
    }

    /// @notice Sets the address that is credited with slashed stakes and tolls from now on.
    function setTreasury(address to) external onlyAdmin {
        _setTreasury(to);
    }

    /// @notice Sets how groups that are created from now on pay their nodes.
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
