// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AnyRoots} from "./AnyRoots.sol";

/// @title A timelock without operations, with one proposer
contract OneProposer {
    address private immutable PROPOSER;

    constructor(address proposer) {
        PROPOSER = proposer;
    }

    function hasRole(bytes32, address account) external view returns (bool) {
        return account == PROPOSER;
    }

    function cancel(bytes32) external {}
}

/// @title A vetoer cannot withdraw the offer that replaces it, and an offer takes effect only after its delay
/// @dev The contract itself has the role that a check is about. `check_refuted_`: see LanesCheck.
contract RootsRolesCheck is AnyRoots {
    /// @dev The vetoer may be the pauser too, but neither a proposer nor the admin.
    function check_no_call_of_the_vetoer_ends_an_offer(
        uint8 which, address pending, uint40 from, bool isPauser, bytes32 word, address who
    ) external {
        _beVetoer(pending, from, isPauser);
        _callAsVetoer(which, word, who);
        assert(pendingVetoer == pending && vetoerOfferedFrom == from);
    }

    function check_refuted_no_call_of_the_pauser_ends_an_offer(address pending, uint40 from) external {
        _beVetoer(pending, from, true);
        vetoer = address(0xbeef);
        this.withdrawVetoerOffer();
        assert(pendingVetoer == pending);
    }

    function check_an_offer_is_accepted_after_its_delay_by_the_pending_vetoer(address pending, uint40 from) external {
        (pendingVetoer, vetoerOfferedFrom) = (pending, from);
        this.acceptVetoer();
        assert(pending == address(this) && block.timestamp >= from);
        assert(vetoer == address(this) && pendingVetoer == address(0));
    }

    function check_refuted_an_offer_is_accepted_a_second_later(address pending, uint40 from) external {
        (pendingVetoer, vetoerOfferedFrom) = (pending, from);
        this.acceptVetoer();
        assert(block.timestamp > from);
    }

    function check_an_offer_waits_for_seven_days(address to) external {
        admin = address(new OneProposer(address(this)));
        this.offerVetoer(to);
        assert(pendingVetoer == to && vetoerOfferedFrom == block.timestamp + 7 days);
        assert(vetoer == address(0xbeef));
    }

    function check_only_a_proposer_offers(address to, address proposer) external {
        admin = address(new OneProposer(proposer));
        this.offerVetoer(to);
        assert(proposer == address(this));
    }

    function _beVetoer(address pending, uint40 from, bool isPauser) private {
        admin = address(new OneProposer(address(0xcafe)));
        vetoer = address(this);
        pauser = isPauser ? address(this) : address(0xbabe);
        (pendingVetoer, vetoerOfferedFrom) = (pending, from);
        // The pending vetoer is another account.
        if (pending == address(this)) revert();
    }

    function _callAsVetoer(uint8 which, bytes32 word, address who) private {
        if (which == 0) this.withdrawVetoerOffer();
        if (which == 1) this.offerVetoer(who);
        if (which == 2) this.acceptVetoer();
        if (which == 3) this.setVetoer(who);
        if (which == 4) this.cancelOperation(word);
        if (which == 5) this.veto(who, word);
        if (which == 6) this.allow(who, uint40(uint256(word)));
        if (which == 7) this.pauseFor(uint40(uint256(word)));
        if (which == 8) this.acceptAdmin();
        if (which == 9) this.setPauser(who);
        if (which == 10) this.transferAdmin(who);
    }
}
