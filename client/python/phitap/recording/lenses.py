"""nnterp's lenses, each as one request."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from phitap import edits
from phitap.request import Capture, Generation, Prompt, logit_lens as lens_reduction, run_prompts
from phitap.selections import Selection
from phitap.trace import Trace
from phitap.values import RunValue

if TYPE_CHECKING:
    from phitap.recording.model import Model


@dataclasses.dataclass(frozen=True)
class TargetPrompt:
    """A target prompt and the position in it that a patchscope overwrites."""

    prompt: Any
    index_to_patch: int


def repeat_prompt(words: Optional[Sequence[str]] = None, rel: str = " ", sep: str = "\n", placeholder: str = "?",
                  index_to_patch: int = -1) -> TargetPrompt:
    """Words repeated, then a placeholder: a target that makes the model say what the patched state stands for."""
    pairs = [word + rel + word for word in (words or ["king", "1135", "hello"])]
    return TargetPrompt(sep.join([*pairs, placeholder]), index_to_patch)


def logit_lens(model: "Model", prompts: Sequence[Prompt]) -> np.ndarray:
    """[prompts, layers, vocab_size]"""
    capture = Capture("layers.*.layer_output", label="lens", positions=-1, reduce=lens_reduction(model.vocab_size))
    trace = model.client.trace(prompts, capture, model=model.name)
    found = np.empty((len(trace.runs), model.num_layers, model.vocab_size), np.float32)
    for of_run, run in zip(found, trace.runs):
        layers = run["lens"]
        for of_layer, parts in zip(of_run, layers.values() if model.num_layers > 1 else [layers]):
            of_layer[parts["indices"][0]] = parts["probabilities"][0]
    return found


def patchscope_lens(model: "Model", source_prompts: Any, targets: Union[None, TargetPrompt, Sequence[TargetPrompt]],
                    layers: Union[None, int, Sequence[int]], latents: Optional[Any]) -> np.ndarray:
    """[sources, layers, vocab_size]"""
    layers = list(range(model.num_layers)) if layers is None else [layers] if isinstance(layers, int) else list(layers)
    trace, labels = _patched(model, source_prompts, targets or repeat_prompt(), layers, latents, None)
    return np.stack([np.stack([trace.run(label)["probabilities"] for label in row]) for row in labels])


def patchscope_generate(model: "Model", prompts: Any, target: TargetPrompt, max_length: int,
                        layers: Optional[Sequence[int]]) -> dict[int, list[list[int]]]:
    """Ids, target prompt included, by layer."""
    layers = list(range(model.num_layers)) if layers is None else list(layers)
    trace, labels = _patched(model, prompts, target, layers, None, Generation(max_length))
    return {layer: [trace.run(row[i]).tokens + trace.tokens(row[i]) for row in labels] for i, layer in enumerate(layers)}


def _patched(model: "Model", source_prompts: Any, targets: Union[TargetPrompt, Sequence[TargetPrompt]], layers: Sequence[int],
             latents: Optional[Any], generation: Optional[Generation]) -> tuple[Trace, list[list[str]]]:
    """Every target patched in every layer; the labels of the patched runs, [sources][layers]."""
    if (latents is None) == (source_prompts is None):
        raise ValueError("give either source_prompts or latents")
    sources = [] if source_prompts is None else run_prompts(source_prompts)
    count = len(sources) if latents is None else len(latents[0])
    targets = [targets] * count if isinstance(targets, TargetPrompt) else list(targets)
    if len(targets) != count:
        raise ValueError(f"{count} sources and {len(targets)} targets")
    runs = [dataclasses.replace(source, label=f"source{i}") for i, source in enumerate(sources)]
    labels = [[f"target{i} layer {layer}" for layer in layers] for i in range(count)]
    for i, target in enumerate(targets):
        for j, layer in enumerate(layers):
            point = f"layers.{layer}.layer_output"
            value = RunValue(f"source{i}", point, Selection(positions=-1)) if latents is None else latents[j][i]
            patch = edits.set_(point, value, positions=target.index_to_patch)
            runs.append(Prompt(target.prompt, labels[i][j], interventions=[patch], generation=generation))
    captures = [] if generation else [Capture("next_token_probs", "probabilities", sum(labels, []))]
    return model.client.trace(runs, captures, model=model.name), labels
