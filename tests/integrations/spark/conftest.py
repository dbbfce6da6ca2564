"""One Spark inside this machine for all tests of this folder."""

import pytest


@pytest.fixture(scope="session")
def spark(java):
    pytest.importorskip("pyspark", reason="pyspark is not installed (the extra 'spark')")
    from stamo.integrations.spark.jobs import spark_session

    with spark_session("local[2]") as session:
        yield session
