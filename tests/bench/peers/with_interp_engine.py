"""interp-engine on its eager backend; the others need a GPU."""

# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable

import interp_engine
import torch
from transformers import AutoConfig

from peers.peer import Cell, Peer, patches, vector


class InterpEngine(Peer):
    """Every call is a whole forward with all logits: there is no way to stop."""

    def __init__(self, folder: str, eager: bool) -> None:
        self._config = AutoConfig.from_pretrained(folder)
        self._model = interp_engine.load_model(
            folder,
            backend="eager",
            device="cpu",
            dtype=self._config.dtype,
            # Its default is eager; sdpa is faster.
            attn_implementation="eager" if eager else "sdpa",
            requires_grad=True,
        )

    @property
    def size(self) -> int:
        return self._config.hidden_size

    @torch.no_grad()
    def last_logits(self, ids: list[int]) -> torch.Tensor:
        return self._logits([ids])[0]

    @torch.no_grad()
    def layer_outputs(self, ids: list[int]) -> torch.Tensor:
        return torch.cat(self.clean_outputs(ids))

    @torch.no_grad()
    def one_layer(self, ids: list[int], layer: int) -> torch.Tensor:
        return self.capture([ids], layer)[0, -1]

    @torch.no_grad()
    def capture(self, rows: list[list[int]], layer: int) -> torch.Tensor:
        point = f"resid_post.{layer}"
        return self._captured(rows, [point])[point]

    @torch.no_grad()
    def clean_outputs(self, ids: list[int]) -> list[torch.Tensor]:
        points = self._outputs()
        captured = self._captured([ids], points)
        return [captured[point] for point in points]

    @torch.no_grad()
    def patched(
        self, ids: list[int], outputs: list[torch.Tensor], cells: list[Cell]
    ) -> torch.Tensor:
        def hook_of(patch) -> Callable:
            def write(value):
                value = value.clone()
                source = outputs[patch.layer]
                value[patch.rows, patch.positions] = source[0, patch.positions]
                return value

            return write

        hooks = {p.layer: hook_of(p) for p in patches(cells)}
        return self._edited([ids] * len(cells), hooks)

    @torch.no_grad()
    def edited(self, ids: list[int], layer: int, number: int) -> torch.Tensor:
        added = vector(self.size, number).to(self._config.dtype)

        def add(value):
            value = value.clone()
            value[:, -1] += added
            return value

        return self._edited([ids], {layer: add})[0]

    @torch.no_grad()
    def attention(
        self, ids: list[int], layer: int
    ) -> dict[str, torch.Tensor]:
        point = f"attn_probs.{layer}"
        captured = self._captured([ids], [point])
        return {
            "logits": captured.output.logits[0, -1],
            "probabilities": captured[point][0],
        }

    def attribution(self, ids: list[int], token: int) -> torch.Tensor:
        points = self._outputs()
        captured = self._captured([ids], points, detach=False)
        logit = captured.output.logits[0, -1, token]
        values = [captured[point] for point in points]
        return torch.cat(torch.autograd.grad(logit, values))

    @torch.no_grad()
    def generate(self, ids: list[int], layer: int, count: int) -> torch.Tensor:
        added = vector(self.size).to(self._config.dtype)
        add = interp_engine.AddSpec(vector=added, scale=1.0)
        steered = interp_engine.LayerSteeringSpec(operations=[add])
        spec = interp_engine.SteeringSpec(layers={layer: steered})
        with interp_engine.steer(self._model, spec):
            steps = interp_engine.generate_stream(
                self._model,
                torch.tensor([ids]),
                max_tokens=count,
                temperature=0.0,
                stop_at_eos=False,
            )
            return torch.tensor([step.token_id for step in steps])

    def _outputs(self) -> list[str]:
        return [
            f"resid_post.{layer}"
            for layer in range(self._config.num_hidden_layers)
        ]

    def _captured(self, rows: list[list[int]], points: list[str], **options):
        return interp_engine.capture(
            self._model, torch.tensor(rows), points, **options
        )

    def _logits(self, rows: list[list[int]]) -> torch.Tensor:
        return self._captured(rows, []).output.logits[:, -1].clone()

    def _edited(
        self, rows: list[list[int]], hooks: dict[int, Callable]
    ) -> torch.Tensor:
        with interp_engine.HookManager() as hooked:
            for layer, hook in hooks.items():
                module, point = self._model.resolve_point("resid_post", layer)
                hooked.write(module, hook, point=point)
            return self._logits(rows)
