"""TransformerLens, as TransformerBridge."""

# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable

import torch
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoConfig

from peers.peer import Cell, Peer, patches, vector


def _output(layer: int) -> str:
    return f"blocks.{layer}.hook_out"


class TransformerLens(Peer):
    """Its attention is always its own, eager one."""

    def __init__(self, folder: str, eager: bool) -> None:
        self._config = AutoConfig.from_pretrained(folder)
        self._model = TransformerBridge.boot_transformers(
            folder, device="cpu", dtype=self._config.dtype
        )
        self._model.eval()

    @property
    def size(self) -> int:
        return self._config.hidden_size

    @torch.no_grad()
    def last_logits(self, ids: list[int]) -> torch.Tensor:
        return self._forward([ids], logits_to_keep=1)[0, -1]

    def layer_outputs(self, ids: list[int]) -> torch.Tensor:
        return torch.cat(self.clean_outputs(ids))

    def one_layer(self, ids: list[int], layer: int) -> torch.Tensor:
        kept = self._kept([ids], [_output(layer)], layer, pos_slice=-1)
        return kept[0].flatten()

    def capture(self, rows: list[list[int]], layer: int) -> torch.Tensor:
        return self._kept(rows, [_output(layer)], layer)[0]

    def clean_outputs(self, ids: list[int]) -> list[torch.Tensor]:
        names = [_output(n) for n in range(self._config.num_hidden_layers)]
        return self._kept([ids], names, None, logits_to_keep=1)

    @torch.no_grad()
    def patched(
        self, ids: list[int], outputs: list[torch.Tensor], cells: list[Cell]
    ) -> torch.Tensor:
        def hook_of(patch) -> Callable:
            def write(value, hook):
                source = outputs[patch.layer]
                value[patch.rows, patch.positions] = source[0, patch.positions]
                return value

            return write

        hooks = [(_output(p.layer), hook_of(p)) for p in patches(cells)]
        return self._hooked([ids] * len(cells), hooks)[:, -1]

    @torch.no_grad()
    def edited(self, ids: list[int], layer: int, number: int) -> torch.Tensor:
        added = vector(self.size, number).to(self._config.dtype)

        def add(value, hook):
            value[:, -1] += added
            return value

        return self._hooked([ids], [(_output(layer), add)])[0, -1]

    @torch.no_grad()
    def attention(
        self, ids: list[int], layer: int
    ) -> dict[str, torch.Tensor]:
        name = f"blocks.{layer}.attn.hook_pattern"
        logits, cache = self._model.run_with_cache(
            torch.tensor([ids]),
            names_filter=[name],
            return_cache_object=False,
            use_cache=False,
            logits_to_keep=1,
        )
        return {"logits": logits[0, -1], "probabilities": cache[name][0]}

    def attribution(self, ids: list[int], token: int) -> torch.Tensor:
        gradients: dict[int, torch.Tensor] = {}

        def differentiate(value, hook):
            return value.detach().requires_grad_(True)

        def keep(layer: int) -> Callable:
            def hook(gradient, hook):
                whole = isinstance(gradient, tuple)
                gradients[layer] = gradient[0] if whole else gradient

            return hook

        layers = range(self._config.num_hidden_layers)
        self._freeze(True)
        try:
            with self._model.hooks(
                fwd_hooks=[("embed.hook_out", differentiate)],
                bwd_hooks=[(_output(layer), keep(layer)) for layer in layers],
            ):
                self._forward([ids])[0, -1, token].backward()
        finally:
            self._freeze(False)
        return torch.cat([gradients[layer].detach() for layer in layers])

    @torch.no_grad()
    def generate(self, ids: list[int], layer: int, count: int) -> torch.Tensor:
        """Without its cache, which stays empty on Phi-3 in 4.3.0: a step would
        see no token but its own."""
        added = vector(self.size).to(self._config.dtype)

        def add(value, hook):
            return value + added

        with self._model.hooks(fwd_hooks=[(_output(layer), add)]):
            tokens = self._model.generate(
                torch.tensor([ids]),
                max_new_tokens=count,
                do_sample=False,
                stop_at_eos=False,
                return_type="tokens",
                verbose=False,
                use_past_kv_cache=False,
            )
        return tokens[0, len(ids) :]

    def _forward(self, rows: list[list[int]], **options) -> torch.Tensor:
        return self._model(torch.tensor(rows), use_cache=False, **options)

    def _hooked(self, rows: list[list[int]], hooks: list) -> torch.Tensor:
        return self._model.run_with_hooks(
            torch.tensor(rows),
            fwd_hooks=hooks,
            logits_to_keep=1,
            use_cache=False,
        )

    @torch.no_grad()
    def _kept(
        self, rows: list[list[int]], names: list[str], last, **options
    ) -> list[torch.Tensor]:
        """Values by name; nothing after the layer `last` is computed."""
        _, cache = self._model.run_with_cache(
            torch.tensor(rows),
            names_filter=names,
            stop_at_layer=None if last is None else last + 1,
            return_cache_object=False,
            use_cache=False,
            **options,
        )
        return [cache[name] for name in names]

    def _freeze(self, frozen: bool) -> None:
        for module in (self._model.original_model, self._model):
            for parameter in module.parameters():
                parameter.requires_grad_(not frozen)
