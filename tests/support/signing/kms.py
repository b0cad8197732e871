"""A KMS over HTTP: moto's, with support for messages that are already digests.

Nothing of our code is replaced: boto3 sends requests to a real server, which does not show its
key.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import boto3
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from moto.kms.responses import KmsResponse
from moto.kms.utils import ECDSAPrivateKey
from moto.server import ThreadedMotoServer

from oracle.signing.key_locations import KmsKey

REGION = "eu-central-1"


class Kms(NamedTuple):
    url: str
    client: Any

    def new_key(self, spec: str = "ECC_SECG_P256K1") -> KmsKey:
        response = self.client.create_key(KeySpec=spec, KeyUsage="SIGN_VERIFY")
        return KmsKey(response["KeyMetadata"]["KeyId"], REGION, self.url, 5.0)


@contextmanager
def run_kms_server() -> Iterator[Kms]:
    """Run moto on a free port; any credentials are accepted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "tests-only")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "tests-only")
        patch.setattr(KmsResponse, "sign", _require_digests(KmsResponse.sign))
        patch.setattr(ECDSAPrivateKey, "sign", _sign_digest)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        try:
            yield Kms(url, boto3.client("kms", region_name=REGION, endpoint_url=url))
        finally:
            server.stop()


def _require_digests(sign: Any) -> Any:
    def sign_digest(self: Any) -> str:
        assert self._get_param("MessageType") == "DIGEST", "a digest would be hashed once more"
        assert self._get_param("SigningAlgorithm") == "ECDSA_SHA_256"
        return str(sign(self))

    return sign_digest


def _sign_digest(self: Any, message: bytes, signing_algorithm: str) -> bytes:
    """Sign as AWS does for MessageType DIGEST."""
    assert signing_algorithm == "ECDSA_SHA_256"
    return bytes(self.private_key.sign(message, ec.ECDSA(Prehashed(hashes.SHA256()))))
