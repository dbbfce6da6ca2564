"""One Spark inside this machine for all tests of this folder."""

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory, java):
    pytest.importorskip("pyspark", reason="pyspark is not installed (the extra 'spark')")
    from stamo.integrations.spark.jobs import spark_session

    with spark_session("local[2]", warehouse=tmp_path_factory.mktemp("warehouse")) as session:
        # Compiling each query takes longer than running it on so little.
        session.conf.set("spark.sql.codegen.wholeStage", False)
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        session.conf.set("spark.sql.shuffle.partitions", 2)
        yield session
