"""Whether what a side found is what transformers finds: a wrong answer is not
fast."""

# SPDX-License-Identifier: Apache-2.0

import pathlib

import torch
from safetensors.torch import load_file

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int32": torch.int32,
    "int64": torch.int64,
}
# Largest root mean square of the difference, in that of transformers' values,
# by what the model computes in: in bfloat16 the orders of attention alone, sdpa
# and eager, differ by up to 0.05.
MOST_DIFFERENCE = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.15}
# Largest distance of a greedy token's logit from the largest, in standard
# deviations of the logits; a token drawn blindly is about 4 away.
MOST_GAP = {"float32": 0.01, "float16": 0.05, "bfloat16": 0.3}


class Wrong(Exception):
    """Values that differ from transformers' by more than rounding."""


def load_tensors(answer: dict) -> list[list[torch.Tensor]]:
    """What bench_client wrote, by request."""
    return [
        [load_tensor(entry) for entry in request]
        for request in answer["tensors"]
    ]


def load_tensor(entry: dict) -> torch.Tensor:
    written = bytearray(pathlib.Path(entry["file"]).read_bytes())
    flat = torch.frombuffer(written, dtype=DTYPES[entry["dtype"]])
    return flat.reshape(entry["shape"])


def load_values(path: pathlib.Path) -> dict[str, torch.Tensor]:
    """What peers/process.py kept."""
    return load_file(path)


def difference(
    found: dict[str, torch.Tensor], reference: dict[str, torch.Tensor]
) -> float:
    """Largest over the values. Raises Wrong where they are not comparable."""
    return max(
        relative_difference(found[name].float(), value.float())
        for name, value in reference.items()
    )


def relative_difference(found: torch.Tensor, reference: torch.Tensor) -> float:
    if found.shape != reference.shape:
        raise Wrong(f"{list(found.shape)} instead of {list(reference.shape)}")
    return ((found - reference).norm() / reference.norm()).item()


def check_difference(value: float, dtype: str) -> None:
    if not value <= MOST_DIFFERENCE[dtype]:
        raise Wrong(f"differs from transformers by {value:.2g} of its values")


def check_gap(value: float, dtype: str) -> None:
    if not value <= MOST_GAP[dtype]:
        raise Wrong(
            f"a token {value:.2g} standard deviations from the likeliest"
        )
