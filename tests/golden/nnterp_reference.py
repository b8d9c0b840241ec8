"""nnterp's documented examples on one checkpoint, their results as a safetensors file.

A process of its own: nnsight changes torch for whoever imports it.

    nnterp_reference.py CHECKPOINT OUT.safetensors
"""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from nnterp import StandardizedTransformer
from nnterp.interventions import TargetPrompt, logit_lens, patchscope_lens, repeat_prompt
from nnterp.nnsight_utils import get_token_activations
from safetensors.torch import save_file

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPT = "When Mary and John went to the store, Mary gave a drink to"
STEERED_LAYERS = [1, 3]
STEERED_POSITIONS = [2, -1]
STEERING_FACTOR = 2.0
SKIPPED = (1, 2)  # both included
EDITED = dict(layer=0, head=2, key=1)  # attention probability set to 0 for every query
PATCHED_LAYERS = [1, 2]
PATCHED_POSITION = 1
GENERATED_TOKENS = 8


def steering_vector(hidden_size: int) -> torch.Tensor:
    return torch.randn(hidden_size, generator=torch.Generator().manual_seed(11))


def results(checkpoint: str) -> dict[str, torch.Tensor]:
    model = StandardizedTransformer(checkpoint, dtype=torch.float32, enable_attention_probs=True)
    vector = steering_vector(model.hidden_size)
    found = {
        "logit_lens": logit_lens(model, CLEAN)[0],  # [layers, vocabulary]
        "token_activations": get_token_activations(model, [CLEAN])[:, 0],  # [layers, hidden]
        "patchscope": patchscope_lens(model, CLEAN, TargetPrompt(CORRUPT, PATCHED_POSITION), layers=PATCHED_LAYERS)[0],
        "repeat_prompt": patchscope_lens(model, CLEAN, repeat_prompt(words=["Mary", "John"], rel=" and", sep=", "))[0],
    }
    with model.trace(CLEAN):
        model.steer(STEERED_LAYERS, vector, factor=STEERING_FACTOR, token_positions=STEERED_POSITIONS)
        found["steer"] = model.next_token_probs[0].save()
    with model.trace(CLEAN):
        model.skip_layers(*SKIPPED)
        found["skip_layers"] = model.next_token_probs[0].save()
    with model.trace(CLEAN):
        model.attention_probabilities[EDITED["layer"]][:, EDITED["head"], :, EDITED["key"]] = 0
        found["attention_probabilities"] = model.next_token_probs[0].save()
    with model.trace(CLEAN):
        model.skip_layers(*SKIPPED, skip_with=model.token_embeddings)
        found["skip_with"] = model.next_token_probs[0].save()
    with model.trace(CLEAN):
        pattern = model.attention_probabilities[EDITED["layer"]]
        pattern[:, EDITED["head"], :, EDITED["key"]] = 0
        pattern /= pattern.sum(-1, keepdim=True) + 1e-6
        found["renormalised_pattern"] = model.next_token_probs[0].save()
    best = model.get_topk_closest_tokens(found["token_activations"][3], k=5)
    found["closest_probabilities"] = torch.tensor(list(best.values()))
    found["closest_ids"] = torch.tensor(model.tokenizer.convert_tokens_to_ids(list(best)))
    with model.trace(CLEAN):
        closest = model.project_on_vocab(model.layers_output[3][:, -1]).softmax(-1).save()
    found["project_on_vocab"] = closest[0]
    # Without stop ids: nnsight drops what comes after an iteration that ends early.
    with model.generate(CLEAN, max_new_tokens=GENERATED_TOKENS, do_sample=False, eos_token_id=-1) as tracer:
        with tracer.iter[:GENERATED_TOKENS]:
            model.layers_output[2] += STEERING_FACTOR * vector
        tokens = model.generator.output.save()
    found["steered_generation"] = tokens[0]
    return found


if __name__ == "__main__":
    save_file({name: value.detach().contiguous().clone() for name, value in results(sys.argv[1]).items()}, sys.argv[2])
