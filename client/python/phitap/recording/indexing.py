"""What stands between square brackets, one index for each dimension."""

from __future__ import annotations

import numbers
from typing import Any

from phitap import tensors
from phitap.errors import RecordingError


def expand_key(key: Any, ndim: int, also: tuple[type, ...] = ()) -> list[Any]:
    """An integer, a slice, a range or a list of integers for each dimension, or something of the types `also`."""
    indices = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, index in enumerate(indices) if index is Ellipsis]
    if len(dots) > 1 or len(indices) - len(dots) > ndim:
        raise IndexError(f"{len(indices) - len(dots)} indices for {ndim} dimensions")
    at = dots[0] if dots else len(indices)
    fill = [slice(None)] * (ndim - (len(indices) - len(dots)))
    indices = indices[:at] + fill + indices[at + len(dots):]
    return [_checked(index, also) for index in indices]


def _checked(index: Any, also: tuple[type, ...]) -> Any:
    if index is None or isinstance(index, bool):
        raise RecordingError(f"{index!r} is no index here: use reshape for new dimensions")
    if isinstance(index, slice) and index.step is not None and index.step < 1:
        raise RecordingError("slices go forwards: use a list of indices for another order")
    if isinstance(index, (numbers.Integral, slice, range, *also)):
        return index
    if tensors.is_array_like(index):
        array = tensors.to_array(index)
        if array.dtype.kind in "iu" and array.ndim == 1:
            return [int(i) for i in array]
    raise RecordingError(f"an index must be an integer, a slice or a list of integers, not {index!r}")


def is_everything(index: Any) -> bool:
    """Whether the index is `:`."""
    return isinstance(index, slice) and index.start in (None, 0) and index.stop is None and index.step in (None, 1)
