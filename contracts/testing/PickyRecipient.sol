// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PayByScore} from "../roots/consumers/PayByScore.sol";

/// @title A recipient that refuses payments, or enters the escrow again, for tests
contract PickyRecipient {
    PayByScore public immutable ESCROW;
    bool public refuses = true;
    bool public reenters;

    error Refused();

    constructor(PayByScore escrow) {
        ESCROW = escrow;
    }

    receive() external payable {
        if (refuses) revert Refused();
        if (reenters) ESCROW.withdraw();
    }

    function create(address node) external payable returns (uint256 id) {
        return ESCROW.create{value: msg.value}(node);
    }

    function withdraw(bool reenter) external {
        (refuses, reenters) = (false, reenter);
        ESCROW.withdraw();
    }
}
