"""nnterp on nnsight, in its own idioms."""

# SPDX-License-Identifier: Apache-2.0

import torch
from nnterp import StandardizedTransformer
from transformers import AutoConfig

from peers.peer import Cell, Peer, vector


class Nnterp(Peer):
    """Several prompts are invokes of one trace, with ids as lists: from the
    second invoke on, nnsight 0.6.3 gives tensors a mask of zeros. Inside an
    invoke `logits` is the whole batch, `lm_head.output` is the invoke's."""

    def __init__(self, folder: str, eager: bool) -> None:
        config = AutoConfig.from_pretrained(folder)
        # The check of probabilities has the tolerances of float32.
        self._model = StandardizedTransformer(
            folder,
            device_map="cpu",
            dtype=config.dtype,
            check_renaming=False,
            enable_attention_probs=eager,
            check_attn_probs_with_trace=False,
        )
        # Before the first trace there are no weights to freeze.
        self._model.dispatch()
        if eager:
            self._model.attention_probabilities.enabled = True

    @property
    def size(self) -> int:
        return self._model.hidden_size

    @torch.no_grad()
    def last_logits(self, ids: list[int]) -> torch.Tensor:
        model = self._model
        with model.trace([ids], logits_to_keep=1, use_cache=False):
            logits = model.logits[0, -1].save()
        return logits

    def layer_outputs(self, ids: list[int]) -> torch.Tensor:
        return torch.cat(self.clean_outputs(ids))

    @torch.no_grad()
    def one_layer(self, ids: list[int], layer: int) -> torch.Tensor:
        model = self._model
        with model.trace([ids], use_cache=False) as tracer:
            output = model.layers_output[layer][0, -1].clone().save()
            tracer.stop()
        return output

    @torch.no_grad()
    def capture(self, rows: list[list[int]], layer: int) -> torch.Tensor:
        model = self._model
        if len(rows) == 1:
            with model.trace(rows, use_cache=False) as tracer:
                output = model.layers_output[layer].clone().save()
                tracer.stop()
            return output
        with model.trace(logits_to_keep=1, use_cache=False) as tracer:
            outputs = [].save()
            for row in rows:
                with tracer.invoke(row):
                    outputs.append(model.layers_output[layer].clone())
        return torch.cat(list(outputs))

    @torch.no_grad()
    def clean_outputs(self, ids: list[int]) -> list[torch.Tensor]:
        model, count = self._model, self._model.num_layers
        with model.trace([ids], use_cache=False) as tracer:
            outputs = [].save()
            for layer in range(count):
                outputs.append(model.layers_output[layer].clone())
            tracer.stop()
        return list(outputs)

    @torch.no_grad()
    def patched(
        self, ids: list[int], outputs: list[torch.Tensor], cells: list[Cell]
    ) -> torch.Tensor:
        model = self._model
        with model.trace(logits_to_keep=1, use_cache=False) as tracer:
            logits = [].save()
            for layer, position in cells:
                with tracer.invoke(ids):
                    source = outputs[layer][:, position]
                    model.layers_output[layer][:, position] = source
                    logits.append(model.lm_head.output[0, -1])
        return torch.stack(list(logits))

    @torch.no_grad()
    def edited(self, ids: list[int], layer: int, number: int) -> torch.Tensor:
        model = self._model
        added = vector(self.size, number).to(model.dtype)
        with model.trace([ids], logits_to_keep=1, use_cache=False):
            model.layers_output[layer][:, -1] += added
            logits = model.logits[0, -1].save()
        return logits

    @torch.no_grad()
    def attention(
        self, ids: list[int], layer: int
    ) -> dict[str, torch.Tensor]:
        model = self._model
        with model.trace([ids], logits_to_keep=1, use_cache=False):
            probabilities = model.attention_probabilities[layer].save()
            logits = model.logits[0, -1].save()
        return {"logits": logits, "probabilities": probabilities[0]}

    def attribution(self, ids: list[int], token: int) -> torch.Tensor:
        model, count = self._model, self._model.num_layers
        # nnsight traces what it does not know.
        model._model.requires_grad_(False)
        try:
            with model.trace([ids], use_cache=False):
                outputs = []
                for layer in range(count):
                    output = model.layers_output[layer]
                    if layer == 0:
                        output.requires_grad_(True)
                    outputs.append(output)
                logit = model.logits[0, -1, token]
                gradients = [].save()
                with logit.backward():
                    for layer in reversed(range(count)):
                        gradients.append(outputs[layer].grad)
        finally:
            model._model.requires_grad_(True)
        return torch.cat(list(gradients)[::-1])

    @torch.no_grad()
    def generate(self, ids: list[int], layer: int, count: int) -> torch.Tensor:
        model = self._model
        added = vector(self.size).to(model.dtype)
        with model.generate(max_new_tokens=count, do_sample=False) as tracer:
            with tracer.invoke(ids):
                for _ in tracer.iter[:]:
                    model.steer(layer, added)
            with tracer.invoke():
                tokens = tracer.result.save()
        return tokens[0, len(ids) :]
