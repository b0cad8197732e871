// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title Credits and withdrawals
/// @notice Fees, refunds and stakes are credited here; each owner withdraws its own. Ether leaves the network only in
/// withdraw(), so a receiver that rejects it, or calls back, affects only itself.
abstract contract Purse {
    /// @notice Wei that the address may withdraw.
    mapping(address account => uint256 wei_) public withdrawable;

    /// @notice `account` may withdraw `amount` wei more.
    event Credited(address indexed account, uint256 amount);

    /// @notice `account` withdrew all its `amount` wei.
    event Withdrawn(address indexed account, uint256 amount);

    /// @notice The sender has nothing to withdraw.
    error NothingToWithdraw(address account);

    /// @notice The sender rejected the ether that it withdrew; the credit stays.
    error PaymentRefused(address account);

    /// @notice Credits the ether sent to `account`, for example to the dispatcher, which pays for its own tasks
    /// (Probes).
    function fund(address account) external payable {
        _credit(account, msg.value);
    }

    /// @notice Sends the sender its whole credit.
    function withdraw() external {
        uint256 amount = withdrawable[msg.sender];
        if (amount == 0) revert NothingToWithdraw(msg.sender);
        // Before the call: a receiver that calls back has no credit left.
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
