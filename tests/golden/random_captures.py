"""Random captures: every hook point, with selections, reductions, times and types."""

import random

import phitap
from edit_cases import DIMENSIONS, FIELDS, MODEL_LEVEL
from phitap import request
from random_edits import Shape

#: Of hook points that can only be read.
_DERIVED = {"input_ids": ("seq",), "attention_mask": ("seq",), "input_size": (), "rotary_cos": ("seq",), "rotary_sin": ("seq",),
            "next_token_probs": ("features",)}
_ALL = DIMENSIONS | _DERIVED
_LENS = ("layer_input", "layer_mid", "layer_output")


def random_capture(shape: Shape, rng: random.Random, label: str, runs: list[str], shortest: int, generates: bool) -> phitap.Capture:
    """Of runs whose prompts have at least `shortest` tokens."""
    hook = rng.choice(list(DIMENSIONS) * 6 + list(_DERIVED) + list(_LENS) * 8 + ["logits"] * 8)
    points = hook
    if hook not in MODEL_LEVEL and hook not in _DERIVED:
        layer = rng.randrange(shape.layers)
        points = f"layers.{rng.choice(['*', '*', layer, -1, f'0-{layer}'])}.{hook}"
    sizes = {"seq": shortest, "query": shortest, "key": shortest, "heads": shape.head_count(hook), "features": shape.width(hook)}
    where = {}
    for dimension in _ALL[hook]:
        if rng.random() < 0.3:
            where[FIELDS[dimension]] = rng.choice([-1, rng.sample(range(sizes[dimension]), rng.randint(1, min(5, sizes[dimension]))),
                                                   slice(rng.randrange(sizes[dimension]), None)])
    real = hook not in ("input_ids", "attention_mask", "input_size")
    reduction = _reduction(shape, rng, hook, where, generates) if real else None
    return phitap.Capture(points, label, runs, **where, read_time=rng.choice([None, None, "before", "after"]) if real else None,
                          reduce=reduction, dtype=rng.choice([None, None, "float32", "bfloat16"]) if real and reduction is None else None)


def _reduction(shape: Shape, rng: random.Random, hook: str, where: dict, generates: bool) -> request.Reduction | None:
    if rng.random() < 0.7 or hook.startswith("rotary"):
        return None
    kinds = [request.norm()]
    if "features" in _ALL[hook] and "features" not in where:
        kinds.append(request.top_k(rng.randint(1, min(9, shape.width(hook)))))
    if "seq" in _ALL[hook] and not generates:
        kinds.append(request.mean_over_positions())
    if hook in _LENS and "features" not in where:
        kinds.append(request.logit_lens(rng.randint(1, 5), rng.sample(range(90), 2), rng.random() < 0.5))
    return rng.choice(kinds)
