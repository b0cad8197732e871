// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AnyRoots} from "./AnyRoots.sol";

/// @title A report is signed by as many different signers as the quorum, whatever the bytes
/// @dev Three signers, of whom two must sign; ecrecover may return anything. `check_refuted_`: see LanesCheck.
contract RootsQuorumCheck is AnyRoots {
    function check_signatures_count_once(bytes32 digest, bytes calldata signatures) external view {
        assert(_count(_checkSignatures(digest, 2, signatures)) == 2);
    }

    function check_refuted_all_signers_must_sign(bytes32 digest, bytes calldata signatures) external view {
        assert(_count(_checkSignatures(digest, 2, signatures)) == 3);
    }

    function check_only_signers_count(bytes32 digest, bytes calldata signatures) external view {
        assert(_checkSignatures(digest, 2, signatures) < 8);
    }

    function check_refuted_the_third_signer_never_counts(bytes32 digest, bytes calldata signatures) external view {
        assert(_checkSignatures(digest, 2, signatures) < 4);
    }

    function check_a_signature_has_one_form(bytes32 digest, bytes calldata signatures) external view {
        _checkSignatures(digest, 2, signatures);
        assert(_isLow(signatures[32:64]) && _isLow(signatures[97:129]));
    }

    function check_refuted_a_signature_has_any_form(bytes32 digest, bytes calldata signatures) external view {
        _checkSignatures(digest, 2, signatures);
        assert(uint256(bytes32(signatures[32:64])) < HALF_OF_ORDER / 2);
    }

    function check_a_signer_is_dropped_only_above_the_quorum(address who, address other) external {
        uint256 count = _head.configCount;
        _dropSigner(who);
        assert(this.signers().length == 2 && _head.quorum == 2 && _head.configCount == count + 1);
        try this.drop(other) {
            assert(false);
        } catch {}
    }

    function check_refuted_no_signer_is_ever_dropped(address who) external {
        _dropSigner(who);
        assert(false);
    }

    function drop(address who) external {
        _dropSigner(who);
    }

    /// @dev Computed here, not taken from the contract, whose constant could be wrong.
    uint256 private constant HALF_OF_ORDER =
        (0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141 - 1) / 2;

    function _isLow(bytes calldata s) private pure returns (bool) {
        return uint256(bytes32(s)) <= HALF_OF_ORDER;
    }

    function _count(uint256 bits) private pure returns (uint256) {
        return (bits & 1) + ((bits >> 1) & 1) + ((bits >> 2) & 1);
    }
}
