// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Stand-in for Crynux's NodeStaking, to test its adapter: stakes of a network with off-chain tasks
/// @notice Selectors, events, texts, roles and the order of payments and logs are those of crynux-contracts 0c10b81;
/// the code was written for these tests. Left out: credits and delegated stakes (both are 0), lowering a stake. As in
/// Crynux, the admin has no getter, and a stake is paid by a call that must succeed.
contract CrynuxStaking {
    enum StakingStatus {
        Unstaked,
        Staked,
        PendingUnstaked
    }

    struct StakingInfo {
        address nodeAddress;
        uint256 stakedBalance;
        uint256 stakedCredits;
        StakingStatus status;
        uint256 unstakeTimestamp;
    }

    uint256 private constant MIN_STAKE = 400 ether;
    uint256 private constant FORCE_UNSTAKE_DELAY = 1800;

    address public owner;
    address private immutable SLASH_RECEIVER;
    address private _parameterController;
    address private _admin;
    mapping(address => StakingInfo) private _infos;
    mapping(address => address) private _benefits;

    event NodeStaked(address indexed nodeAddress, uint256 stakedBalance, uint256 stakedCredits);
    event NodeTryUnstaked(address indexed nodeAddress);
    event NodeUnstaked(address indexed nodeAddress, uint256 stakedBalance, uint256 stakedCredits);
    event NodeSlashed(address indexed nodeAddress, uint256 stakedBalance, uint256 stakedCredits);
    event ParameterControllerUpdated(address indexed parameterControllerAddress);

    error OwnableUnauthorizedAccount(address account);

    constructor(address slashReceiver) {
        require(slashReceiver != address(0), "slash receiver is zero");
        (owner, SLASH_RECEIVER) = (msg.sender, slashReceiver);
    }

    function setParameterController(address addr) external {
        if (msg.sender != owner) revert OwnableUnauthorizedAccount(msg.sender);
        require(_parameterController == address(0), "Parameter controller already set");
        require(addr != address(0), "Parameter controller cannot be zero");
        _parameterController = addr;
        emit ParameterControllerUpdated(addr);
    }

    function setAdminAddress(address addr) external {
        require(msg.sender == _parameterController, "Not called by parameter controller");
        _admin = addr;
    }

    /// @notice Sets, once, the receiver of the sender's stake; in Crynux a separate contract, BenefitAddress.
    function setBenefitAddress(address benefitAddress) external {
        require(_benefits[msg.sender] == address(0), "Benefit address already set");
        _benefits[msg.sender] = benefitAddress;
    }

    // --- Node calls ---

    function stake(uint256 stakedAmount) external payable {
        require(stakedAmount >= MIN_STAKE, "Staked amount is too low");
        StakingInfo storage info = _infos[msg.sender];
        require(info.status != StakingStatus.PendingUnstaked, "Wrong staking status");
        require(stakedAmount >= info.stakedBalance, "Staked amount is too low");
        require(msg.value == stakedAmount - info.stakedBalance, "Inconsistent staked balance");
        info.stakedBalance = stakedAmount;
        (info.nodeAddress, info.status) = (msg.sender, StakingStatus.Staked);
        emit NodeStaked(msg.sender, stakedAmount, 0);
    }

    function tryUnstake() external {
        StakingInfo storage info = _staked(msg.sender);
        require(info.status == StakingStatus.Staked, "Node has unstaked");
        (info.status, info.unstakeTimestamp) = (StakingStatus.PendingUnstaked, block.timestamp);
        emit NodeTryUnstaked(msg.sender);
    }

    function forceUnstake() external {
        StakingInfo storage info = _staked(msg.sender);
        require(info.status == StakingStatus.PendingUnstaked, "Node didn't tryUnstake first");
        require(info.unstakeTimestamp + FORCE_UNSTAKE_DELAY < block.timestamp, "Force unstake time not reached");
        _unstake(msg.sender);
    }

    function getStakingInfo(address nodeAddress) external view returns (StakingInfo memory) {
        return _infos[nodeAddress];
    }

    // --- Admin calls ---

    function unstake(address nodeAddress) external {
        require(msg.sender == _admin, "Not called by the admin");
        _staked(nodeAddress);
        _unstake(nodeAddress);
    }

    function slashStaking(address nodeAddress) external {
        require(msg.sender == _admin, "Not called by the admin");
        uint256 balance = _staked(nodeAddress).stakedBalance;
        _pay(SLASH_RECEIVER, balance);
        delete _infos[nodeAddress];
        emit NodeSlashed(nodeAddress, balance, 0);
    }

    // --- Internal functions ---

    /// @dev As in Crynux, the storage is cleared after the payment.
    function _unstake(address nodeAddress) private {
        uint256 balance = _infos[nodeAddress].stakedBalance;
        require(balance > 0, "Staking is zero");
        _infos[nodeAddress].stakedBalance = 0;
        address benefit = _benefits[nodeAddress];
        _pay(benefit == address(0) ? nodeAddress : benefit, balance);
        delete _infos[nodeAddress];
        emit NodeUnstaked(nodeAddress, balance, 0);
    }

    function _staked(address nodeAddress) private view returns (StakingInfo storage info) {
        info = _infos[nodeAddress];
        require(info.status != StakingStatus.Unstaked, "Node not staked");
    }

    function _pay(address to, uint256 amount) private {
        (bool success,) = to.call{value: amount}("");
        require(success, "Token transfer failed");
    }
}
