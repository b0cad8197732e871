// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title A node owned by a contract that takes no ether, or calls back when it gets some
/// @notice Only for tests. Whoever wants may speak through it.
contract StubbornNode {
    /// @notice The receiver does not want the ether.
    error NoThanks();

    /// @notice What is called back when ether comes; zero = refuse the ether.
    address public target;

    /// @notice The call made back.
    bytes public answer;

    /// @notice How often it is still made; after that the ether is taken quietly.
    uint256 public answers;

    /// @notice The ether that goes along with it, out of what came.
    uint256 public answerValue;

    /// @notice Sends a call in this contract's name, with the ether given; its revert is passed on.
    function say(address to, bytes calldata words) external payable {
        _call(to, words, msg.value);
    }

    /// @notice From now on, ether is answered with this call, so many times; `to` zero = refused.
    function answerWith(address to, bytes calldata words, uint256 times) external {
        (target, answer, answers, answerValue) = (to, words, times, 0);
    }

    /// @notice From now on, ether is answered with this call once, and with so much ether.
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
