"""A model as nnterp shows it: its sizes, traces of it, and the whole experiments that nnterp names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from phitap import values
from phitap.errors import RecordingError
from phitap.recording import lenses
from phitap.recording.lenses import TargetPrompt
from phitap.recording.recorder import TraceRecorder
from phitap.request import Capture, Options, PromptLike, run_prompts
from phitap.v1 import model_pb2

if TYPE_CHECKING:
    from phitap.client import Client


class Model:
    """One model of a server. Thread-safe; a trace of it is not."""

    def __init__(self, client: "Client", description: model_pb2.Model):
        self.client = client
        self.description = description
        self.name = description.summary.name
        config = description.summary.config
        self.num_layers: int = config.num_layers
        self.num_heads: int = config.num_heads
        self.num_kv_heads: int = config.num_kv_heads
        self.head_dim: int = config.head_dim
        self.hidden_size: int = config.hidden_size
        self.intermediate_size: int = config.intermediate_size
        self.vocab_size: int = config.vocab_size
        self._points = {point.name: point for point in description.hook_points}

    def trace(self, prompt: Optional[PromptLike] = None, *, timeout: Optional[float] = None, **options: Any) -> TraceRecorder:
        """Records what the `with` block says and sends it as one request when the block is left.

            with model.trace() as t:
                with t.run("When Mary and John went to the store, John gave a drink to") as clean:
                    resid = clean.layers[2].layer_output[-1]
                with t.run("When Mary and John went to the store, Mary gave a drink to") as corrupt:
                    corrupt.layers[2].layer_output[-1] = resid
                    logits = corrupt.logits[-1].save()
            logits.value  # numpy [vocab_size]

        With a prompt the block's variable is its only run. options: numerics=, attention=, longrope_cache=, isolate=, priority=, as in Options.
        """
        return TraceRecorder(self, prompt, Options(self.name, **options), timeout)

    def hook_point(self, name: str, layer: Optional[int]) -> model_pb2.HookPoint:
        """A hook point by its name, in a layer or (None) of the whole model. Raises AttributeError naming what there is."""
        point = self._points.get(name)
        if point is None or ("{i}" in point.full_name) != (layer is not None):
            there = [known.name for known in self._points.values() if ("{i}" in known.full_name) == (layer is not None)]
            raise AttributeError(f"no hook point {name!r} {'of the model' if layer is None else 'in a layer'}; there are: {', '.join(there)}")
        return point

    def token_id(self, text: str) -> int:
        """The id of a text that is one token, e.g. " Mary"."""
        ids = self.client.tokenize(text, model=self.name)
        if len(ids) != 1:
            raise ValueError(f"{text!r} is {len(ids)} tokens: {ids}")
        return ids[0]

    # By nnterp's names and meanings; each is one request.

    def logit_lens(self, prompts: Any) -> np.ndarray:
        """The next-token distribution that each layer's output stands for at the last token: [prompts, layers, vocab_size]."""
        return lenses.logit_lens(self, run_prompts(prompts))

    def patchscope_lens(self, source_prompts: Any = None, target_patch_prompts: Union[None, TargetPrompt, Sequence[TargetPrompt]] = None,
                        layers: Union[None, int, Sequence[int]] = None, latents: Optional[Any] = None) -> np.ndarray:
        """Writes each source's last-token hidden state into its target, layer by layer: [sources, layers, vocab_size].

        latents: hidden states [layers, sources, hidden_size] instead of source_prompts. target_patch_prompts: default repeat_prompt().
        """
        return lenses.patchscope_lens(self, source_prompts, target_patch_prompts, layers, latents)

    def patchscope_generate(self, prompts: Any, target_patch_prompt: TargetPrompt, max_length: int = 50,
                            layers: Optional[Sequence[int]] = None) -> dict[int, list[list[int]]]:
        """The same, generating max_length tokens from each patched target: ids, target prompt included, by layer."""
        return lenses.patchscope_generate(self, prompts, target_patch_prompt, max_length, layers)

    def get_token_activations(self, prompts: Any, layers: Optional[Sequence[int]] = None, get_activations: str = "layer_output",
                              idx: int = -1) -> np.ndarray:
        """One token's activations: [layers, prompts, …]. get_activations: the hook point's name. idx: the token's position."""
        layers = range(self.num_layers) if layers is None else layers
        numbers = ",".join(str(layer % self.num_layers) for layer in layers)
        capture = Capture(f"layers.{{{numbers}}}.{get_activations}", label="activations", positions=idx)
        trace = self.client.trace(prompts, capture, model=self.name)
        axis = list(self._points[get_activations].dimension_names).index("seq")
        by_run = [run["activations"] for run in trace.runs]
        found = [list(value.values()) if isinstance(value, dict) else [value] for value in by_run]
        return np.stack([np.stack([value[i] for value in found]) for i in _order(layers, self.num_layers)]).squeeze(axis + 2)

    def project_on_vocab(self, hidden_states: Any) -> np.ndarray:
        """Final norm and head on hidden states [..., hidden_size]: logits [..., vocab_size]."""
        return self._of_values(values.constant(hidden_states).unembed())[0]

    def get_topk_closest_tokens(self, hidden_state: Any, k: int = 5) -> Union[dict[str, float], list[dict[str, float]]]:
        """The k tokens that a hidden state [hidden_size] stands for, with their probabilities; of [n, hidden_size] a list of these."""
        hidden_state = np.asarray(values.constant(hidden_state).payload)
        if hidden_state.shape[-1] != self.hidden_size or hidden_state.ndim not in (1, 2):
            raise ValueError(f"hidden states have the shape [{self.hidden_size}] or [n, {self.hidden_size}], not {list(hidden_state.shape)}")
        probabilities = values.constant(hidden_state).unembed().softmax()
        best, ids = self._of_values(probabilities.top_k(k), probabilities.top_k(k, indices=True))
        texts = self.client.detokenize_each(ids.astype(int).reshape(-1), model=self.name)
        rows = [{text: float(p) for text, p in zip(texts[k * i:k * i + k], row)} for i, row in enumerate(best.reshape(-1, k))]
        return rows[0] if hidden_state.ndim == 1 else rows

    def next_token_probs(self, prompts: Any) -> np.ndarray:
        """The next token's distribution after each prompt: [prompts, vocab_size]."""
        return np.stack([run["next_token_probs"] for run in self.client.trace(prompts, "next_token_probs", model=self.name).runs])

    def _of_values(self, *wanted: values.Value) -> list[np.ndarray]:
        """Values that depend on no run: a request has one all the same."""
        captures = [Capture(label=f"value{i}", node=value) for i, value in enumerate(wanted)]
        trace = self.client.trace([[0]], captures, model=self.name)
        return [trace[capture.label] for capture in captures]

    def __repr__(self) -> str:
        return f"<phitap.Model {self.name}: {self.num_layers} layers, hidden size {self.hidden_size}>"


def _order(layers: Sequence[int], count: int) -> list[int]:
    """Where each layer stands among those asked for, in the model's order."""
    asked = sorted({layer % count for layer in layers})
    return [asked.index(layer % count) for layer in layers]
