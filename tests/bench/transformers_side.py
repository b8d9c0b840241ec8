"""transformers under the stopwatch: does what each line of standard input asks
for and answers with a line; measure.py drives it.

  {"do": "logits", "ids": [5, 9]}        logits of the last position
  {"do": "layer_outputs", "ids": [...]}  of every layer, at every position
  {"do": "one_layer", "ids": [...], "layer": 4}  at the last position
  {"do": "matmul", "rows": 512}          a linear layer as wide as an MLP's

Each in the way that is fastest for someone who knows the library: no cache, no
gradients, and no layer after the last one that is needed. The answer:

  {"seconds": 0.1}
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import os
import time
from collections.abc import Callable

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging


class _LastLayerDone(Exception):
    """Leaves a forward where nothing more is wanted of it."""


class Transformers:
    """One model. The weights stay as loaded: under torch 2.11 freezing them
    makes bfloat16 heads of one row take 0.4 s instead of 7 ms."""

    def __init__(self, folder: str) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(
            folder, dtype="auto", attn_implementation="sdpa"
        ).eval()

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        return self._model(ids, use_cache=False, logits_to_keep=1).logits[0]

    def layer_outputs(self, ids: torch.Tensor) -> list[torch.Tensor]:
        last = self._model.config.num_hidden_layers - 1
        return self._outputs(ids, range(last + 1), slice(None))

    def one_layer(self, ids: torch.Tensor, layer: int) -> list[torch.Tensor]:
        return self._outputs(ids, [layer], slice(-1, None))

    def matmul(self, rows: int) -> Callable[[], torch.Tensor]:
        weight = self._model.model.layers[0].mlp.gate_up_proj.weight
        x = torch.randn(rows, weight.shape[1]).to(weight.dtype)
        return lambda: torch.nn.functional.linear(x, weight)

    def _outputs(self, ids, layers, positions) -> list[torch.Tensor]:
        outputs = []

        def hook(module, arguments, output):
            output = output[0] if isinstance(output, tuple) else output
            outputs.append(output[0, positions].clone())
            if len(outputs) == len(layers):
                raise _LastLayerDone

        handles = [
            self._model.model.layers[layer].register_forward_hook(hook)
            for layer in layers
        ]
        try:
            self._model.model(ids, use_cache=False)
        except _LastLayerDone:
            pass
        finally:
            for handle in handles:
                handle.remove()
        return outputs


def work_of(model: Transformers, asked: dict) -> Callable[[], object]:
    if asked["do"] == "matmul":
        return model.matmul(asked["rows"])
    ids = torch.tensor([asked["ids"]])
    if asked["do"] == "one_layer":
        return lambda: model.one_layer(ids, asked["layer"])
    work = {"logits": model.logits, "layer_outputs": model.layer_outputs}
    return lambda: work[asked["do"]](ids)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    model = Transformers(arguments.folder)
    with torch.no_grad():
        while True:
            try:
                work = work_of(model, json.loads(input()))
            except EOFError:
                return
            start = time.perf_counter()
            work()
            print(
                json.dumps({"seconds": [time.perf_counter() - start]}),
                flush=True,
            )


if __name__ == "__main__":
    main()
