"""Opens the keys configured in `[keys]`.

A key is opened once, when it is first needed, because decrypting a keystore takes a second and a
key in a KMS takes a request.
"""

from collections.abc import Callable
from functools import cache

from oracle.daemon.config.dispatch_section import build_dispatch_settings
from oracle.daemon.config.keys_section import Role
from oracle.daemon.config.loader import Config
from oracle.daemon.records import build_configured_rules
from oracle.domain.ids import Address
from oracle.signing.factory import open_signer
from oracle.signing.keystore import read_keystore_address
from oracle.signing.signer import Signer

# A function that opens a role's key on the first call and returns it, or None if no such key is
# configured.
OpenKey = Callable[[Role], Signer | None]


def make_key_opener(config: Config) -> OpenKey:
    """Return a function that opens the keys configured in `[keys]`.

    The function raises InputError if a file is missing, readable by others or not a keystore. It
    also raises InputError if a password is wrong, or if a key does not have the configured
    address.
    """

    @cache
    def open_key(role: Role) -> Signer | None:
        location = config.keys.find_key_location(role)
        if location is None:
            return None
        expected_address = config.keys.get_expected_address(role)
        return open_signer(
            location, role=role, chain_id=config.chain.id, expected_address=expected_address
        )

    return open_key


def find_dispatcher_address(config: Config, open_key: OpenKey) -> Address | None:
    """Return the dispatcher's configured address, or else the address of its key.

    The result is None if no node is drawn, or if there is no key.

    Raises:
        InputError: see `make_key_opener`.
    """
    keys = config.keys
    is_drawing = (
        build_dispatch_settings(config.dispatch, build_configured_rules(config)) is not None
    )
    if not is_drawing or not keys.has_key("dispatcher"):
        return None
    address = keys.get_expected_address("dispatcher")
    if address is None and keys.dispatcher_keystore is not None:
        address = read_keystore_address(keys.dispatcher_keystore)
    if address is None:
        dispatcher = open_key("dispatcher")
        address = None if dispatcher is None else dispatcher.address
    return address
