"""transformers, with PyTorch hooks written by hand."""

# SPDX-License-Identifier: Apache-2.0

import contextlib
from collections.abc import Callable, Iterator

import torch
from transformers import AutoModelForCausalLM

from peers.peer import Cell, Peer, patches, remove, vector


class _LastLayerDone(Exception):
    """Leaves a forward where nothing more is wanted of it."""


class Transformers(Peer):
    """The weights are frozen for gradients alone: under torch 2.11 frozen ones
    make a bfloat16 head of one row take 0.4 s instead of 7 ms."""

    def __init__(self, folder: str, eager: bool) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype="auto",
            attn_implementation="eager" if eager else "sdpa",
        ).eval()
        self._layers = self._model.model.layers

    @property
    def size(self) -> int:
        return self._model.config.hidden_size

    @torch.no_grad()
    def last_logits(self, ids: list[int]) -> torch.Tensor:
        return self._head([ids])[0]

    @torch.no_grad()
    def layer_outputs(self, ids: list[int]) -> torch.Tensor:
        return torch.cat(self.clean_outputs(ids))

    def one_layer(self, ids: list[int], layer: int) -> torch.Tensor:
        return self._outputs([ids], [layer])[0][0, -1]

    def capture(self, rows: list[list[int]], layer: int) -> torch.Tensor:
        return self._outputs(rows, [layer])[0]

    def clean_outputs(self, ids: list[int]) -> list[torch.Tensor]:
        return self._outputs([ids], range(len(self._layers)))

    @torch.no_grad()
    def patched(
        self, ids: list[int], outputs: list[torch.Tensor], cells: list[Cell]
    ) -> torch.Tensor:
        def hook_of(patch) -> Callable:
            def hook(module, arguments, output):
                source = outputs[patch.layer]
                output[patch.rows, patch.positions] = source[0, patch.positions]

            return hook

        hooks = {p.layer: hook_of(p) for p in patches(cells)}
        with self._hooked(hooks):
            return self._head([ids] * len(cells))

    @torch.no_grad()
    def edited(self, ids: list[int], layer: int, number: int) -> torch.Tensor:
        added = self._vector(number)

        def add(module, arguments, output):
            output[:, -1] += added

        with self._hooked({layer: add}):
            return self._head([ids])[0]

    @torch.no_grad()
    def attention(
        self, ids: list[int], layer: int
    ) -> dict[str, torch.Tensor]:
        kept = []
        handle = self._layers[layer].self_attn.register_forward_hook(
            lambda module, arguments, output: kept.append(output[1])
        )
        try:
            logits = self._head([ids])[0]
        finally:
            handle.remove()
        return {"logits": logits, "probabilities": kept[0][0]}

    def attribution(self, ids: list[int], token: int) -> torch.Tensor:
        outputs: dict[int, torch.Tensor] = {}

        def keep(layer: int) -> Callable:
            def hook(module, arguments, output):
                outputs[layer] = output

            return hook

        embeddings = self._model.model.embed_tokens.register_forward_hook(
            lambda module, arguments, output: output.requires_grad_()
        )
        hooks = {layer: keep(layer) for layer in range(len(self._layers))}
        self._model.requires_grad_(False)
        try:
            with self._hooked(hooks):
                logit = self._head([ids])[0, token]
            return torch.cat(torch.autograd.grad(logit, list(outputs.values())))
        finally:
            embeddings.remove()
            self._model.requires_grad_(True)

    @torch.no_grad()
    def generate(self, ids: list[int], layer: int, count: int) -> torch.Tensor:
        added = self._vector()

        def add(module, arguments, output):
            return output + added

        with self._hooked({layer: add}):
            tokens = self._model.generate(
                torch.tensor([ids]), max_new_tokens=count, do_sample=False
            )
        return tokens[0, len(ids) :]

    @torch.no_grad()
    def token_gaps(
        self, ids: list[int], layer: int, tokens: list[int]
    ) -> torch.Tensor:
        """How far each generated token is from the likeliest one, steered as in
        `generate`, in standard deviations of the logits at its step; 0 where it
        is the likeliest. Not a task: it judges the others' tokens."""
        added = self._vector()

        def add(module, arguments, output):
            return output + added

        with self._hooked({layer: add}):
            hidden = self._hidden([ids + tokens[:-1]])[0, len(ids) - 1 :]
        logits = self._model.lm_head(hidden).float()
        chosen = logits.gather(1, torch.tensor(tokens)[:, None])[:, 0]
        return (logits.max(dim=1).values - chosen) / logits.std(dim=1)

    def linear_maps(
        self, rows: int, layers: int, rest_of_last: int
    ) -> Callable[[], None]:
        """The linear maps that the layers of a forward cannot do without, alone:
        of the last of `layers`, `rest_of_last` rows go on after keys and
        values. Not a task: it is the machine's measure."""
        calls = []
        for number, layer in enumerate(self._layers[:layers]):
            last = number == layers - 1
            rest = rest_of_last if last else rows
            calls += self._linear_calls(layer, rows, rest)

        def run() -> None:
            with torch.no_grad():
                for values, weight in calls:
                    torch.nn.functional.linear(values, weight)

        return run

    def _linear_calls(
        self, layer: torch.nn.Module, rows: int, rest: int
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        qkv = layer.self_attn.qkv_proj.weight
        if rest < rows:
            config = self._model.config
            queries = config.num_attention_heads * layer.self_attn.head_dim
            first = [(rows, qkv[queries:]), (rest, qkv[:queries])]
        else:
            first = [(rows, qkv)]
        others = (
            layer.self_attn.o_proj,
            layer.mlp.gate_up_proj,
            layer.mlp.down_proj,
        )
        return [
            (torch.randn(count, weight.shape[1]).to(weight.dtype), weight)
            for count, weight in first + [(rest, m.weight) for m in others]
        ]

    def _vector(self, number: int = 0) -> torch.Tensor:
        return vector(self.size, number).to(self._model.dtype)

    def _hidden(self, rows: list[list[int]]) -> torch.Tensor:
        return self._model.model(
            torch.tensor(rows), use_cache=False
        ).last_hidden_state

    def _head(self, rows: list[list[int]]) -> torch.Tensor:
        """Last logits; a slice before the head: see the class."""
        return self._model.lm_head(self._hidden(rows)[:, -1])

    @torch.no_grad()
    def _outputs(self, rows: list[list[int]], layers) -> list[torch.Tensor]:
        outputs: list[torch.Tensor] = []

        def keep(module, arguments, output):
            # A later layer's hook may write into it in place.
            outputs.append(output.clone())
            if len(outputs) == len(layers):
                raise _LastLayerDone

        with self._hooked({layer: keep for layer in layers}):
            with contextlib.suppress(_LastLayerDone):
                self._hidden(rows)
        return outputs

    @contextlib.contextmanager
    def _hooked(self, hooks: dict[int, Callable]) -> Iterator[None]:
        handles = [
            self._layers[layer].register_forward_hook(hook)
            for layer, hook in hooks.items()
        ]
        try:
            yield
        finally:
            remove(handles)
