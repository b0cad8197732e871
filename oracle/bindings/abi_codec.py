"""An eth_abi codec in which `bytes1` to `bytes32` accept only values of the exact length.

web3 has the same rule, while eth_abi alone pads a value that is too short. To import this module
takes a tenth of a second, and to import web3 about a second, so the module is imported where it is
used.
"""

from eth_abi.codec import ABICodec
from eth_abi.decoding import BytesDecoder
from eth_abi.encoding import BytesEncoder
from eth_abi.registry import ABIRegistry, BaseEquals, registry as default_registry
from typing_extensions import override


class _ExactLengthBytesEncoder(BytesEncoder):
    """An encoder for a fixed-size bytes type that rejects values of other lengths."""

    @override
    def validate_value(self, value: object) -> None:
        super().validate_value(value)  # type: ignore[no-untyped-call]
        byte_count = self.value_bit_size // 8  # type: ignore[operator]
        if isinstance(value, bytes | bytearray) and len(value) != byte_count:
            self.invalidate_value(value, msg=f"has {len(value)} bytes; expected {byte_count}")


def build_strict_codec() -> ABICodec:
    """Build a codec in which fixed-size bytes accept only values of the exact length."""
    registry: ABIRegistry = default_registry.copy()  # type: ignore[no-untyped-call]
    registry.unregister("bytes<M>")
    is_fixed_bytes = BaseEquals("bytes", with_sub=True)  # type: ignore[no-untyped-call]
    registry.register(is_fixed_bytes, _ExactLengthBytesEncoder, BytesDecoder, label="bytes<M>")
    return ABICodec(registry)
