import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from stamo.build.columns import column_of, flags_of, numbers_of


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64, np.float32])
def test_numbers_go_and_come_back(dtype):
    """The type stays, also of slices and of nothing."""
    numbers = np.arange(10, dtype=dtype)
    column = column_of(numbers)
    assert column.equals(pa.array(numbers))
    assert numbers_of(column).dtype == dtype
    assert numbers_of(column.slice(3, 4)).tolist() == [3, 4, 5, 6]
    assert len(numbers_of(column_of(numbers[:0]))) == 0


def test_a_column_of_a_table_is_copied_in_order():
    """Numbers that are not side by side in memory become so."""
    table = np.arange(12, dtype=np.int32).reshape(4, 3)
    assert column_of(table[:, 1]).to_pylist() == [1, 4, 7, 10]


def test_flags_of_slices():
    """Eight flags share a byte, and a slice may begin inside of one."""
    flags = [True, False, False, True, True] * 5
    column = pa.array(flags)
    assert flags_of(column).tolist() == flags
    assert flags_of(column.slice(7, 11)).tolist() == flags[7:18]


def test_pandas_is_not_asked_for():
    """Arrow's own ways would import it."""
    code = (
        "import sys, numpy as np\nfrom stamo.build.columns import column_of, numbers_of\n"
        "numbers_of(column_of(np.arange(3)))\nprint('pandas' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
