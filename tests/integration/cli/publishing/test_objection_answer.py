"""`objection answer`: the answer is signed by this reporter's signer."""

from dataclasses import astuple

from oracle.cli.objection_commands import sign_objection_answer
from oracle.daemon.config.loader import read_config
from oracle.domain.ids import Address
from oracle.signing.keystore import read_keystore_address
from oracle.signing.signature_checks import verify_statement_signature
from oracle.signing.typed_data import AnswerStatement, Domain
from oracle.store.state.objection_repository import ObjectionAnswer
from tests.support.cli.local_network import write_config

CONTRACT = Address("0x" + 40 * "e")
STATEMENT = AnswerStatement(Address("0x" + 40 * "5"), 1_700_000_000, False, "proven", 9)
UNSIGNED = ObjectionAnswer(*astuple(STATEMENT))


def test_objection_answer_is_signed_for_the_objection_contract(settings, tmp_path):
    settings["objections"] = {"address": CONTRACT}
    config = read_config(write_config(settings, tmp_path / "config.toml"))
    answer = sign_objection_answer(config, STATEMENT, UNSIGNED)
    assert answer[:5] == UNSIGNED[:5]
    assert answer.signature is not None
    assert config.keys.signer_keystore is not None
    signer = read_keystore_address(config.keys.signer_keystore)
    assert signer is not None
    assert answer.signer == signer
    digest = STATEMENT.compute_digest(Domain(config.chain.id, CONTRACT))
    assert verify_statement_signature(answer.signature, digest, signer) == answer.signature


def test_objection_answer_stays_unsigned_without_a_key(settings, tmp_path):
    settings["objections"] = {"address": CONTRACT}
    settings["keys"] = {
        name: value for name, value in settings["keys"].items() if "signer" not in name
    }
    config = read_config(write_config(settings, tmp_path / "config.toml"))
    assert sign_objection_answer(config, STATEMENT, UNSIGNED) == UNSIGNED
