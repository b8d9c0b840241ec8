"""What every library does for measure.py, and what they share."""

# SPDX-License-Identifier: Apache-2.0

import dataclasses
from collections.abc import Iterable, Iterator

import torch

VECTOR_SEED = 11
VECTOR_NORM = 4.0

Cell = tuple[int, int]  # layer, position


def vector(size: int, number: int = 0) -> torch.Tensor:
    """The one that edits add; measure.py sends the same to the server."""
    generator = torch.Generator().manual_seed(VECTOR_SEED + number)
    drawn = torch.randn(size, generator=generator)
    return drawn * (VECTOR_NORM / drawn.norm())


@dataclasses.dataclass(frozen=True)
class Patch:
    """Rows of a batch that take a position of a layer's output from elsewhere."""

    layer: int
    rows: list[int]
    positions: list[int]


def patches(cells: list[Cell]) -> Iterator[Patch]:
    """Row i is patched at cells[i]; one Patch for each layer."""
    for layer in sorted({layer for layer, _ in cells}):
        rows = [row for row, cell in enumerate(cells) if cell[0] == layer]
        yield Patch(layer, rows, [cells[row][1] for row in rows])


class Peer:
    """A library with one model. Each method is a task, done in the way that is
    fastest for someone who knows the library, and returns what it found. One
    that a library has no way to do is left out.

    folder: a checkpoint. eager: attention whose probabilities can be read.
    """

    def __init__(self, folder: str, eager: bool) -> None:
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Width of the residual stream."""
        raise NotImplementedError

    def last_logits(self, ids: list[int]) -> torch.Tensor:
        """[vocabulary]"""
        raise NotImplementedError

    def layer_outputs(self, ids: list[int]) -> torch.Tensor:
        """[layer, position, feature]"""
        raise NotImplementedError

    def one_layer(self, ids: list[int], layer: int) -> torch.Tensor:
        """At the last position: [feature]"""
        raise NotImplementedError

    def capture(self, rows: list[list[int]], layer: int) -> torch.Tensor:
        """Prompts of one length as one batch: [row, position, feature]"""
        raise NotImplementedError

    def capture_each(self, rows: list[list[int]], layer: int) -> torch.Tensor:
        """The same, one prompt after another, as a server of one would."""
        return torch.cat([self.capture([row], layer) for row in rows])

    def clean_outputs(self, ids: list[int]) -> list[torch.Tensor]:
        """Each layer's, [1, position, feature], for `patched`."""
        raise NotImplementedError

    def patched(
        self, ids: list[int], outputs: list[torch.Tensor], cells: list[Cell]
    ) -> torch.Tensor:
        """Last logits of a batch, each row with a cell patched: [cell, …]"""
        raise NotImplementedError

    def sweep(
        self,
        clean: list[int],
        corrupt: list[int],
        cells: list[Cell],
        token: int,
        batch: int,
    ) -> torch.Tensor:
        """The token's logit with each cell patched from the clean run."""
        outputs = self.clean_outputs(clean)
        rows = [
            self.patched(corrupt, outputs, cells[start : start + batch])
            for start in range(0, len(cells), batch)
        ]
        return torch.cat(rows)[:, token]

    def edited(self, ids: list[int], layer: int, number: int) -> torch.Tensor:
        """Last logits with vector(size, number) added to the layer's output at
        the last position."""
        raise NotImplementedError

    def edit_each(self, ids: list[int], layers: list[int]) -> torch.Tensor:
        """`edited` at each of the layers, one after another."""
        return torch.stack(
            [
                self.edited(ids, layer, number)
                for number, layer in enumerate(layers)
            ]
        )

    def attention(
        self, ids: list[int], layer: int
    ) -> dict[str, torch.Tensor]:
        """A forward's last logits and the layer's probabilities:
        `logits` [vocabulary], `probabilities` [head, query, key]"""
        raise NotImplementedError

    def attribution(self, ids: list[int], token: int) -> torch.Tensor:
        """Gradient of the token's last logit by every layer's output:
        [layer, position, feature]"""
        raise NotImplementedError

    def generate(self, ids: list[int], layer: int, count: int) -> torch.Tensor:
        """Greedy tokens with vector(size) added to the layer's output."""
        raise NotImplementedError


def remove(handles: Iterable) -> None:
    for handle in handles:
        handle.remove()
