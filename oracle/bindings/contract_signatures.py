"""Verifies signatures of contract accounts (ERC-1271) by calling the account's contract."""

from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import RevertError

# Gas limit of the call to the account's contract, as in contracts/roots/Objections.sol.
CHECK_GAS = 100_000
# Selector of `isValidSignature(bytes32,bytes)` (EIP-1271). The contract returns the same four
# bytes to accept a signature.
_SELECTOR = "1626ba7e"
_VALID = "0x" + _SELECTOR.ljust(64, "0")
_WORD_BYTES = 32
_TRANSACTION_GAS, _CALLDATA_BYTE_GAS = 21_000, 40


class SignatureCheckUnavailableError(TransientError):
    """An account's contract cannot be called now.

    The error message is sent to the client.
    """


def verify_contract_signature(
    pool_view: PoolView, chain_id: int, account: Address, digest: Hash, signature: bytes
) -> bool | None:
    """Return whether a contract account accepts a signature at the newest block.

    The check follows ERC-1271. The result is None if the account returns nothing, as an account
    without code does. The gas of the call is limited, because the contract is not trusted.

    Raises:
        TransientError: no endpoint of the chain responds.
    """
    calldata = _encode_call(digest, signature)
    gas = CHECK_GAS + _TRANSACTION_GAS + _CALLDATA_BYTE_GAS * len(calldata)
    eth_call_params = {"to": account, "data": "0x" + calldata.hex(), "gas": hex(gas)}

    def call_account(endpoint: EndpointCaller) -> bool | None:
        if not endpoint.serves_chain(chain_id):
            raise TransientError(f"{endpoint.name} does not serve chain {chain_id}")
        try:
            result_hex = endpoint.request("eth_call", eth_call_params, "latest")
        except RevertError:
            return False
        if result_hex == "0x":
            return None
        return isinstance(result_hex, str) and result_hex[: len(_VALID)].lower() == _VALID

    return pool_view.read_from_first(call_account)


def _encode_call(digest: Hash, signature: bytes) -> bytes:
    """Encode a call of `isValidSignature`: the hash, then the signature.

    The signature is ABI-encoded.
    """
    padded_length = -(-len(signature) // _WORD_BYTES) * _WORD_BYTES
    words = (bytes.fromhex(digest[2:]), *(number.to_bytes(32) for number in (64, len(signature))))
    return bytes.fromhex(_SELECTOR) + b"".join(words) + signature.ljust(padded_length, b"\0")
