"""Python texts and numpy numbers as Arrow columns, and back.

Arrow's own ``pa.array`` and ``to_numpy`` import pandas wherever it is installed, which takes longer
than to score a thousand captions. These do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16"}


def of_texts(texts: Sequence[str]) -> pa.LargeStringArray:
    """Return texts, none of them None, as one column.

    Example:
        >>> of_texts(["a dog", "", "caf\u00e9"]).to_pylist()
        ['a dog', '', 'caf\u00e9']
    """
    encoded = [text.encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def of_numbers(values: npt.NDArray[Any]) -> pa.Array:
    """Return numbers as a column, without a copy.

    Example:
        >>> of_numbers(np.array([1.5, 2.5])).type
        DataType(double)
    """
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def numbers_of(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column of numbers, none of them null, without a copy.

    Example:
        >>> numbers_of(of_numbers(np.arange(5)).slice(1, 2)).tolist()
        [1, 2]
    """
    kind = str(column.type)
    dtype = np.dtype(_NAMES.get(kind, kind))
    content = column.buffers()[1]
    if not len(column) or content is None:
        return np.zeros(0, dtype)
    return np.frombuffer(content, dtype, len(column), column.offset * dtype.itemsize)
