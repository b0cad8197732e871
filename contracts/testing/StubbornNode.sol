// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title Node contract that rejects ether, or calls back when it receives some
/// @notice Only for tests. Anyone may make calls through it.
contract StubbornNode {
    /// @notice The receiver rejects the ether.
    error NoThanks();

    /// @notice Contract that is called back when ether arrives; zero = reject the ether.
    address public target;

    /// @notice Input of the call back.
    bytes public answer;

    /// @notice Remaining number of calls back; after that the ether is accepted without one.
    uint256 public answers;

    /// @notice Ether sent with a call back, out of the received ether, wei.
    uint256 public answerValue;

    /// @notice Makes a call from this contract, with the ether sent; its revert data is passed on.
    function say(address to, bytes calldata words) external payable {
        _call(to, words, msg.value);
    }

    /// @notice From now on, ether triggers this call, `times` times; `to` zero = rejected.
    function answerWith(address to, bytes calldata words, uint256 times) external {
        (target, answer, answers, answerValue) = (to, words, times, 0);
    }

    /// @notice From now on, ether triggers this call once, with `value` wei.
    function answerPaying(address to, bytes calldata words, uint256 value) external {
        (target, answer, answers, answerValue) = (to, words, 1, value);
    }

    receive() external payable {
        if (target == address(0)) revert NoThanks();
        if (answers == 0) return;
        answers -= 1;
        _call(target, answer, answerValue);
    }

    function _call(address to, bytes memory words, uint256 value) private {
        (bool done, bytes memory reason) = to.call{value: value}(words);
        if (done) return;
        assembly ("memory-safe") {
            revert(add(reason, 32), mload(reason))
        }
    }
}
