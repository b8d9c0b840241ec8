"""Arrays on their way to the server: element types, and the pieces of an upload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import xxhash

from phitap.v1 import activation_service_pb2 as service_pb2
from phitap.v1 import tensor_pb2

#: Element types as they travel.
DTYPES: dict[int, np.dtype] = {
    tensor_pb2.DATA_TYPE_F32: np.dtype("<f4"),
    tensor_pb2.DATA_TYPE_F16: np.dtype("<f2"),
    tensor_pb2.DATA_TYPE_BF16: np.dtype(ml_dtypes.bfloat16),
    tensor_pb2.DATA_TYPE_I64: np.dtype("<i8"),
    tensor_pb2.DATA_TYPE_I32: np.dtype("<i4"),
    tensor_pb2.DATA_TYPE_BOOL: np.dtype("?"),
}
_WIRE_TYPES = {dtype: wire for wire, dtype in DTYPES.items()}
#: What wire_type is called in messages' `dtype` fields.
DTYPE_NAMES = {
    "float32": tensor_pb2.DATA_TYPE_F32,
    "float16": tensor_pb2.DATA_TYPE_F16,
    "bfloat16": tensor_pb2.DATA_TYPE_BF16,
}

CHUNK_BYTES = 1 << 20
#: What the server takes inside one request; larger tensors are uploaded.
INLINE_LIMIT_BYTES = 64 << 20


def is_array_like(value: Any) -> bool:
    """numpy arrays, torch tensors, and lists or tuples of numbers."""
    return isinstance(value, (np.ndarray, np.generic, list, tuple)) or type(value).__module__.partition(".")[0] == "torch"


def to_array(value: Any) -> np.ndarray:
    """A contiguous little-endian array of a type that travels. float64 becomes float32: values are computed in float32 anyway.

    value: anything that is_array_like.
    """
    if type(value).__module__.partition(".")[0] == "torch":
        value = _from_torch(value)
    array = np.asarray(value)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<") if array.dtype.kind in "fiu" else None).reshape(array.shape)
    if array.dtype not in _WIRE_TYPES:
        names = ", ".join(str(dtype) for dtype in _WIRE_TYPES)
        raise TypeError(f"arrays of {array.dtype} cannot be sent; convert to one of: {names}")
    return array


def tensor_message(array: np.ndarray) -> tensor_pb2.Tensor:
    """A small tensor inside a message; array as from to_array."""
    return tensor_pb2.Tensor(dtype=_WIRE_TYPES[array.dtype], shape=array.shape, data=array.tobytes())


def array_of(message: tensor_pb2.Tensor) -> np.ndarray:
    """The array that a message holds."""
    return np.frombuffer(message.data, DTYPES[message.dtype]).reshape(tuple(message.shape))


def upload(name: str, array: np.ndarray) -> Iterator[service_pb2.PutTensorRequest]:
    """The messages of an upload: a header, then pieces, the last with the checksum of all."""
    header = service_pb2.PutTensorHeader(name=name, dtype=_WIRE_TYPES[array.dtype], shape=array.shape)
    yield service_pb2.PutTensorRequest(header=header)
    stored = memoryview(array.reshape(-1).view(np.uint8))
    checksum = xxhash.xxh3_64()
    for offset in range(0, max(len(stored), 1), CHUNK_BYTES):
        piece = stored[offset:offset + CHUNK_BYTES]
        checksum.update(piece)
        chunk = service_pb2.PutTensorChunk(offset_bytes=offset, data=bytes(piece))
        if offset + CHUNK_BYTES >= len(stored):
            chunk.xxh3 = checksum.intdigest()
        yield service_pb2.PutTensorRequest(chunk=chunk)


def _from_torch(tensor: Any) -> np.ndarray:
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()
