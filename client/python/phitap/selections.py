"""Which part of a value: indices in Python's terms, and their way into protobuf."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Sequence
from typing import Optional, Union

import numpy as np

from phitap.v1 import selection_pb2

#: One index, a slice, a range, or several of these. Negative numbers count from the end.
Indices = Union[int, slice, range, Sequence[Union[int, slice, range]], np.ndarray]

FIELDS = ("positions", "heads", "features", "queries", "keys", "steps")


@dataclasses.dataclass(frozen=True)
class Selection:
    """A part of a value; None means all of it.

    positions, heads, features, queries, keys: along the dimensions of that name. token_ids: positions whose token is one of these,
    instead of positions. steps: of generation, 0 is the prompt and t the t-th generated token on its way through the model.
    """

    positions: Optional[Indices] = None
    token_ids: Sequence[int] = ()
    heads: Optional[Indices] = None
    features: Optional[Indices] = None
    queries: Optional[Indices] = None
    keys: Optional[Indices] = None
    steps: Optional[Indices] = None

    def message(self) -> Optional[selection_pb2.Selection]:
        """None where nothing is chosen."""
        chosen = {name: index_set(getattr(self, name)) for name in FIELDS if getattr(self, name) is not None}
        if not chosen and not self.token_ids:
            return None
        return selection_pb2.Selection(token_ids=self.token_ids, **chosen)


def index_set(indices: Indices) -> selection_pb2.IndexSet:
    """IndexSet of an index, a slice, a range, or several of these. The order is kept; single indices come before ranges."""
    items = [indices] if isinstance(indices, (numbers.Integral, slice, range)) else list(indices)
    message = selection_pb2.IndexSet()
    for item in items:
        if isinstance(item, numbers.Integral):
            if message.ranges:  # the wire has single indices first: a range of one keeps the order
                start = int(item)
                stop = None if start == -1 else start + 1
                message.ranges.append(selection_pb2.IndexRange(start=start, stop=stop))
            else:
                message.indices.append(int(item))
        elif isinstance(item, (slice, range)):
            message.ranges.append(selection_pb2.IndexRange(start=item.start, stop=item.stop, step=item.step))
        else:
            raise TypeError(f"an index must be an int, a slice or a range, not {type(item).__name__}: {item!r}")
    return message
