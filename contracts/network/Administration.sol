// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IQoSOracle} from "../IQoSOracle.sol";

/// @title Who may set what
/// @notice The admin names the dispatcher, the treasury and, once, the oracle, and sets the limits of time and
/// stake. The admin moves no money and ends no task or membership.
abstract contract Administration {
    /// @notice What the admin may change; it holds at once, also for what is under way.
    /// @param minStake least stake to join, wei
    /// @param validationTimeout seconds that a creator has to validate, 1 to MAX_WAIT
    /// @param groupTimeout seconds that a result waits for the rest of its group, 1 to MAX_WAIT
    /// @param rejoinDelay seconds between leaving and joining again
    /// @param kickCooldown seconds that a kicked-out address stays out, FOREVER = until readmitted
    struct Settings {
        uint128 minStake;
        uint32 validationTimeout;
        uint32 groupTimeout;
        uint32 rejoinDelay;
        uint32 kickCooldown;
    }

    /// @notice As a kickCooldown: no time is enough.
    uint32 public constant FOREVER = type(uint32).max;

    /// @notice Longest validationTimeout and groupTimeout in seconds, so that no setting can lock money up.
    uint32 public constant MAX_WAIT = 30 days;

    /// @notice Sets the roles and limits; the oracle has no say in it.
    address public admin;

    /// @notice Who must accept to become admin, 0 = nobody.
    address public offeredAdmin;

    /// @notice Queues tasks, starts them on nodes, and drops them from the queue.
    address public dispatcher;

    /// @notice Where slashed stakes are credited.
    address public treasury;

    /// @notice Learns of every join, and may kick nodes out. 0 until it is set.
    IQoSOracle public oracle;

    Settings internal _settings;

    /// @notice `offered` may accept to become admin; 0 withdraws the offer.
    event AdminOffered(address indexed offered);

    /// @notice `admin` is the admin from now on.
    event AdminChanged(address indexed admin);

    /// @notice `dispatcher` is the dispatcher from now on.
    event DispatcherChanged(address indexed dispatcher);

    /// @notice Slashed stakes go to `treasury` from now on.
    event TreasuryChanged(address indexed treasury);

    /// @notice The oracle was set, once and for all.
    event OracleSet(address indexed oracle);

    /// @notice These limits hold from now on.
    event SettingsChanged(Settings settings);

    /// @notice The sender is not the admin.
    error NotAdmin(address sender);

    /// @notice The sender is not the one to whom the admin offered the role.
    error NotOffered(address sender);

    /// @notice The sender is not the dispatcher.
    error NotDispatcher(address sender);

    /// @notice The sender is not the oracle contract.
    error NotOracle(address sender);

    /// @notice A role cannot be held by address 0.
    error ZeroAddress();

    /// @notice There is no contract at this address.
    error NoCode(address account);

    /// @notice The oracle is set already, and stays.
    error OracleAlreadySet(address oracle);

    /// @notice validationTimeout or groupTimeout is 0 or above MAX_WAIT.
    error BadSettings();

    modifier onlyAdmin() {
        if (msg.sender != admin) revert NotAdmin(msg.sender);
        _;
    }

    modifier onlyDispatcher() {
        if (msg.sender != dispatcher) revert NotDispatcher(msg.sender);
        _;
    }

    constructor(address admin_, address dispatcher_, address treasury_, uint128 minStake) {
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
                rejoinDelay: 30 minutes,
                kickCooldown: FOREVER
            })
        );
    }

    /// @notice The limits that hold now.
    function settings() external view returns (Settings memory) {
        return _settings;
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

    /// @notice Names who is credited with slashed stakes from now on.
    function setTreasury(address to) external onlyAdmin {
        _setTreasury(to);
    }

    /// @notice Changes the limits.
    function setSettings(Settings calldata to) external onlyAdmin {
        _setSettings(to);
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
        _settings = to;
        emit SettingsChanged(to);
    }
}
