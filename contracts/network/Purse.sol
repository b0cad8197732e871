// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title Money that waits to be fetched
/// @notice Fees, refunds and stakes are credited here; each owner withdraws its own. Ether leaves the network in
/// withdraw() only, so a receiver that refuses it, or calls back, concerns nobody else.
abstract contract Purse {
    /// @notice Wei that the address may withdraw.
    mapping(address account => uint256 wei_) public withdrawable;

    /// @notice `account` may withdraw `amount` wei more.
    event Credited(address indexed account, uint256 amount);

    /// @notice `account` took all its `amount` wei.
    event Withdrawn(address indexed account, uint256 amount);

    /// @notice The sender has nothing to withdraw.
    error NothingToWithdraw(address account);

    /// @notice The sender refused its own ether; the credit stays.
    error PaymentRefused(address account);

    /// @notice Credits the ether sent to `account`: so is paid what the dispatcher orders by itself (Probes).
    function fund(address account) external payable {
        _credit(account, msg.value);
    }

    /// @notice Sends the sender all that it is owed.
    function withdraw() external {
        uint256 amount = withdrawable[msg.sender];
        if (amount == 0) revert NothingToWithdraw(msg.sender);
        // Before the call: a receiver that calls back finds nothing.
        withdrawable[msg.sender] = 0;
        emit Withdrawn(msg.sender, amount);
        (bool taken,) = msg.sender.call{value: amount}("");
        if (!taken) revert PaymentRefused(msg.sender);
    }

    function _credit(address account, uint256 amount) internal {
        if (amount == 0) return;
        withdrawable[account] += amount;
        emit Credited(account, amount);
    }
}
