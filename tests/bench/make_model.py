#!/usr/bin/env python3
"""Makes a seeded random checkpoint of the shape of Phi-3-mini-4k, in seconds.

The folder is a plain Hugging Face one that transformers and phitapd load:
config.json, generation_config.json, safetensors (sharded at 5 GB, with an
index, as on the hub) and the tokenizer of deploy/demo-model, whose ids fit in
the larger vocabulary.

Examples:
  make_model.py /tmp/m8                     8 layers of full width, 2.2 GB
  make_model.py /tmp/m32 --layers 32        the whole shape, 7.6 GB
  make_model.py /tmp/tiny --tiny --dtype float32

Tensors are streamed to disk: memory stays below 1 GB at any size. Every value
is drawn from one block of normal numbers, which each tensor reads around and
around from a place of its own; the block's length is prime, so that no two
rows of a matrix are alike.
"""
# SPDX-License-Identifier: Apache-2.0

import argparse
import dataclasses
import json
import pathlib
import shutil
import struct
import time
import zlib
from collections.abc import Iterator

import torch
from transformers import AutoTokenizer, GenerationConfig, Phi3Config

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = REPOSITORY / "deploy" / "demo-model"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
DTYPES = {
    "bfloat16": (torch.bfloat16, "BF16"),
    "float16": (torch.float16, "F16"),
    "float32": (torch.float32, "F32"),
}
BLOCK_LENGTH = 2**24 - 3  # values; prime
SHARD_BYTES = 5 * 10**9
WEIGHT_DEVIATION = 0.02
MINI = dict(
    hidden_size=3072,
    intermediate_size=8192,
    num_attention_heads=32,
    num_key_value_heads=32,
)
TINY = dict(
    hidden_size=64,
    intermediate_size=128,
    num_attention_heads=4,
    num_key_value_heads=2,
)


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]

    @property
    def values(self) -> int:
        product = 1
        for size in self.shape:
            product *= size
        return product


class Source:
    """The values of every tensor: a function of the seed and its name."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(seed)
        block = torch.randn(BLOCK_LENGTH, generator=generator)
        block *= WEIGHT_DEVIATION
        self._seed = seed
        self._weights = self._bytes(block.to(dtype))
        self._norms = self._bytes((1 + block).to(dtype))
        self.value_bytes = dtype.itemsize

    @staticmethod
    def _bytes(block: torch.Tensor) -> memoryview:
        return memoryview(block.view(torch.uint8).numpy())

    def pieces(self, tensor: Tensor) -> Iterator[memoryview]:
        """The tensor's bytes, little-endian and row-major, piece by piece."""
        block = self._norms if len(tensor.shape) == 1 else self._weights
        at = zlib.crc32(f"{self._seed} {tensor.name}".encode()) % BLOCK_LENGTH
        start, left = at * self.value_bytes, tensor.values * self.value_bytes
        while left > 0:
            piece = block[start : start + left]
            yield piece
            start, left = 0, left - len(piece)


def tensors_of(config: Phi3Config) -> list[Tensor]:
    """Every tensor of Phi3ForCausalLM, in the order of the forward."""
    hidden, inner = config.hidden_size, config.intermediate_size
    head_dim = hidden // config.num_attention_heads
    keys = config.num_key_value_heads * head_dim
    tensors = [Tensor("model.embed_tokens.weight", (config.vocab_size, hidden))]
    for layer in range(config.num_hidden_layers):
        for name, shape in {
            "input_layernorm": (hidden,),
            "self_attn.qkv_proj": (hidden + 2 * keys, hidden),
            "self_attn.o_proj": (hidden, hidden),
            "post_attention_layernorm": (hidden,),
            "mlp.gate_up_proj": (2 * inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }.items():
            tensors.append(Tensor(f"model.layers.{layer}.{name}.weight", shape))
    return tensors + [
        Tensor("model.norm.weight", (hidden,)),
        Tensor("lm_head.weight", (config.vocab_size, hidden)),
    ]


def shards_of(tensors: list[Tensor], value_bytes: int) -> list[list[Tensor]]:
    """The tensors in order, cut before each one that would pass SHARD_BYTES."""
    shards: list[list[Tensor]] = [[]]
    filled = 0
    for tensor in tensors:
        size = tensor.values * value_bytes
        if shards[-1] and filled + size > SHARD_BYTES:
            shards.append([])
            filled = 0
        shards[-1].append(tensor)
        filled += size
    return shards


def write_shard(
    path: pathlib.Path, shard: list[Tensor], source: Source, dtype_name: str
) -> None:
    """One safetensors file: header length, JSON header, the tensors' bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in shard:
        begin, end = end, end + tensor.values * source.value_bytes
        header[tensor.name] = {
            "dtype": dtype_name,
            "shape": tensor.shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb", buffering=0) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in shard:
            for piece in source.pieces(tensor):
                while piece:  # one write may take less than it is given
                    piece = piece[file.write(piece) :]


def write_weights(
    folder: pathlib.Path, tensors: list[Tensor], source: Source, dtype_name: str
) -> int:
    """Writes all shards and, past one, their index; returns their bytes."""
    shards = shards_of(tensors, source.value_bytes)
    total = sum(tensor.values for tensor in tensors) * source.value_bytes
    if len(shards) == 1:
        write_shard(folder / "model.safetensors", shards[0], source, dtype_name)
        return total
    places = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / name, shard, source, dtype_name)
        places |= {tensor.name: name for tensor in shard}
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps(index, indent=2) + "\n"
    )
    return total


def make_config(arguments: argparse.Namespace) -> Phi3Config:
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    layers = arguments.layers or (4 if arguments.tiny else 8)
    return Phi3Config(
        architectures=["Phi3ForCausalLM"],
        dtype=arguments.dtype,
        num_hidden_layers=layers,
        vocab_size=32064,
        max_position_embeddings=4096,
        original_max_position_embeddings=4096,
        sliding_window=2047,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **(TINY if arguments.tiny else MINI),
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=pathlib.Path, help="folder to make")
    parser.add_argument("--layers", type=int, help="default: 8; 4 with --tiny")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="hidden size 64, 4 heads on 2 key/value heads",
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    start = time.monotonic()
    folder = arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model*.safetensors*"):
        old.unlink()
    config = make_config(arguments)
    dtype, dtype_name = DTYPES[arguments.dtype]
    size = write_weights(
        folder, tensors_of(config), Source(arguments.seed, dtype), dtype_name
    )
    for name in TOKENIZER_FILES:
        shutil.copyfile(TOKENIZER / name, folder / name)
    GenerationConfig.from_pretrained(TOKENIZER).save_pretrained(folder)
    config.save_pretrained(folder)  # the last: a folder without it is not whole
    print(
        json.dumps(
            {
                "out": str(folder),
                "layers": config.num_hidden_layers,
                "dtype": arguments.dtype,
                "weight_bytes": size,
                "seconds": round(time.monotonic() - start, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
