"""Every linking model passes the shared contract."""

import stamo.models
from stamo.models.base import LinkingModel
from stamo.models.deeped.model import DeepED
from stamo.models.yamada.model import Yamada
from tests.contracts import ModelContract, implementations


class TestDeepED(ModelContract):
    kind = DeepED


class TestYamada(ModelContract):
    kind = Yamada


def test_every_model_has_a_contract_test():
    """A model in any file of `stamo.models` without a contract test is found here."""
    models = implementations(stamo.models, lambda kind: issubclass(kind, LinkingModel))
    assert models == {test.kind for test in ModelContract.__subclasses__()}
