"""Every linking model passes the shared contract."""

import pytest

import stamo.models
from stamo.models.base import LinkingModel
from stamo.models.counted import CountedScores
from stamo.models.counted_model import Counted
from stamo.models.deeped import DeepED
from stamo.models.kinds import MODELS
from stamo.models.yamada import Yamada
from tests.contracts import ModelContract, implementations


class TestDeepED(ModelContract):
    kind = DeepED


class TestYamada(ModelContract):
    kind = Yamada


class TestCounted(ModelContract):
    kind = Counted

    @pytest.fixture
    def model(self):
        return Counted(CountedScores(words_weight=2.0).state["weights"]).eval()

    def test_can_be_named_and_saved(self):
        """It is what links without training, so nobody trains it by its name."""
        assert Counted.name not in MODELS


def test_every_model_has_a_contract_test():
    """A model in any file of `stamo.models` without a contract test is found here."""
    models = implementations(stamo.models, lambda kind: issubclass(kind, LinkingModel))
    assert models == {test.kind for test in ModelContract.__subclasses__()}
