#!/usr/bin/env python3
"""Writes values.npz beside this file: what nnterp 1.3.0 (nnsight 0.6.3) computes for its own documented examples on the demo model.

Needs nnterp and nnsight besides what the tests need; the tests read the file only.
"""

import pathlib

import numpy as np
import torch
from nnterp import StandardizedTransformer
from nnterp.interventions import TargetPrompt, logit_lens, patchscope_lens, repeat_prompt
from nnterp.nnsight_utils import get_token_activations

from examples import (
    CLEAN,
    CORRUPT,
    EDITED_HEAD,
    EDITED_LAYER,
    FACTOR,
    SKIPPED,
    STEERED,
    STEERED_POSITIONS,
    TARGET,
    WORDS,
    steering_vector,
)

HERE = pathlib.Path(__file__).resolve().parent


def final(model) -> torch.Tensor:
    return model.logits[0, -1].cpu().save()


def main() -> None:
    model = StandardizedTransformer(str(HERE.parents[2] / "deploy" / "demo-model"), torch_dtype=torch.float32, device_map="cpu",
                                    enable_attention_probs=True, check_attn_probs_with_trace=False)
    found: dict[str, torch.Tensor] = {}
    # Prompts one by one: in a batch, shorter ones would be padded.
    found["logit_lens"] = torch.cat([logit_lens(model, prompt) for prompt in (CLEAN, CORRUPT)])
    found["token_activations"] = torch.cat([get_token_activations(model, [prompt]) for prompt in (CLEAN, CORRUPT)], 1)
    found["patchscope_lens"] = torch.cat([patchscope_lens(model, [prompt], TargetPrompt(TARGET, -1)) for prompt in (CLEAN, CORRUPT)])
    found["repeat_prompt"] = patchscope_lens(model, [CLEAN], repeat_prompt(words=WORDS))
    vector = torch.from_numpy(steering_vector())
    with model.trace(CLEAN):
        model.steer(layers=STEERED, steering_vector=vector, factor=FACTOR)
        found["steer"] = final(model)
    with model.trace(CLEAN):
        model.steer(layers=STEERED, steering_vector=vector, factor=FACTOR, token_positions=STEERED_POSITIONS)
        found["steer_positions"] = final(model)
    with model.trace(CLEAN):
        model.skip_layer(SKIPPED[0])
        found["skip_layer"] = final(model)
    with model.trace(CLEAN):
        model.skip_layers(*SKIPPED)
        found["skip_layers"] = final(model)
    with model.trace(CLEAN):
        embeddings = model.token_embeddings
        model.skip_layers(SKIPPED[0], SKIPPED[1], skip_with=embeddings)
        found["skip_with"] = final(model)
    with model.trace(CLEAN):
        probabilities = model.attention_probabilities[EDITED_LAYER]
        probabilities[:, EDITED_HEAD, :, 0] = 0
        probabilities /= probabilities.sum(dim=-1, keepdim=True) + 1e-6
        found["attention_probabilities"] = final(model)
    with model.trace(CLEAN):
        hidden = model.layers_output[2]
        found["project_on_vocab"] = model.project_on_vocab(hidden)[0, -1].cpu().save()
        found["next_token_probs"] = model.next_token_probs[0].cpu().save()
    closest = model.get_topk_closest_tokens(found["token_activations"][3, 0], k=5)
    found["closest_probabilities"] = torch.tensor(list(closest.values()))
    found["closest_ids"] = torch.tensor(model.tokenizer.convert_tokens_to_ids(list(closest)))
    np.savez_compressed(HERE / "values.npz", **{name: np.asarray(value.detach()) for name, value in found.items()})


if __name__ == "__main__":
    main()
