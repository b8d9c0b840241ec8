"""Every hook point of a forward of transformers itself, in the layouts that our forward shows: token-major, without a batch dimension."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import torch
from transformers import Phi3ForCausalLM
from transformers.models.phi3 import modeling_phi3


def load(folder: pathlib.Path, dtype: torch.dtype, attention: str) -> Phi3ForCausalLM:
    model = Phi3ForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention)
    return model.eval()


def transformers_values(model: Phi3ForCausalLM, ids: list[int], hidden: list[int] = (),
                        position_ids: list[int] | None = None) -> dict[tuple[str, int], torch.Tensor]:
    """(hook, layer) → value of a forward without cache, all logits. With position ids the mask of ones is passed too: without one
    transformers would take jumps for the borders of packed sequences."""
    arguments = {"input_ids": torch.tensor([ids]), "use_cache": False}
    if hidden or position_ids is not None:
        mask = torch.ones(1, len(ids), dtype=torch.int64)
        mask[0, list(hidden)] = 0
        arguments["attention_mask"] = mask
    if position_ids is not None:
        arguments["position_ids"] = torch.tensor([position_ids])
    return values_of_call(model, **arguments)


def values_of_call(model: Phi3ForCausalLM, input_ids: torch.Tensor, **arguments) -> dict[tuple[str, int], torch.Tensor]:
    """(hook, layer) → value of one call of the model. With a cache, keys and values are those that attention is given, and the rest is
    of the call's own tokens."""
    seen: dict[tuple[str, int], torch.Tensor] = {}
    count = input_ids.shape[1]
    with torch.no_grad(), _module_hooks(model, seen), _attention_watched(model, seen):
        logits = model(input_ids=input_ids, **arguments).logits
    seen["logits", -1] = logits[0]
    seen["next_token_probs", -1] = torch.softmax(logits[:, -1], -1, dtype=torch.float32)
    seen["input_ids", -1] = input_ids[0]
    seen["attention_mask", -1] = arguments.get("attention_mask", torch.ones(1, count, dtype=torch.int64))[0][-count:]
    seen["input_size", -1] = torch.tensor([[1, count]])
    return seen


@contextlib.contextmanager
def _module_hooks(model: Phi3ForCausalLM, seen: dict) -> Iterator[None]:
    handles = []

    def output(module: torch.nn.Module, name: str, layer: int = -1, of: Callable = lambda value: value) -> None:
        handles.append(module.register_forward_hook(lambda _, __, value: seen.__setitem__((name, layer), of(value)[0])))

    def input(module: torch.nn.Module, name: str, layer: int = -1) -> None:
        handles.append(module.register_forward_pre_hook(lambda _, given: seen.__setitem__((name, layer), given[0][0])))

    output(model.model.embed_tokens, "token_embeddings")
    output(model.model.rotary_emb, "rotary_cos", of=lambda pair: pair[0])
    output(model.model.rotary_emb, "rotary_sin", of=lambda pair: pair[1])
    output(model.model.norm, "final_norm_output")
    output(model.lm_head, "lm_head_output")
    config = model.config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    for i, layer in enumerate(model.model.layers):
        input(layer, "layer_input", i)
        output(layer.input_layernorm, "attention_norm_output", i)
        output(layer.self_attn.qkv_proj, "attention_qkv", i)
        output(layer.self_attn.qkv_proj, "attention_queries_pre_rotary", i,
               of=lambda qkv: qkv[..., :heads * width].unflatten(-1, (heads, width)))
        output(layer.self_attn.qkv_proj, "attention_keys_pre_rotary", i,
               of=lambda qkv: qkv[..., heads * width:(heads + kv_heads) * width].unflatten(-1, (kv_heads, width)))
        handles.append(layer.self_attn.o_proj.register_forward_pre_hook(
            lambda _, given, i=i: seen.__setitem__(("attention_premix", i), given[0][0].unflatten(-1, (heads, width)))))
        output(layer.self_attn.o_proj, "attention_output", i)
        input(layer.post_attention_layernorm, "layer_mid", i)
        output(layer.post_attention_layernorm, "mlp_norm_output", i)
        input(layer.mlp, "mlp_input", i)
        output(layer.mlp.gate_up_proj, "mlp_gate_up", i)
        output(layer.mlp.gate_up_proj, "mlp_gate", i, of=lambda both: both.chunk(2, -1)[0])
        output(layer.mlp.gate_up_proj, "mlp_up", i, of=lambda both: both.chunk(2, -1)[1])
        output(layer.mlp.activation_fn, "mlp_activation", i)
        input(layer.mlp.down_proj, "mlp_neurons", i)
        output(layer.mlp, "mlp_output", i)
        output(layer, "layer_output", i)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _attention_watched(model: Phi3ForCausalLM, seen: dict) -> Iterator[None]:
    """Sees queries, keys, values, what heads give, and in an eager forward what enters the softmax and what leaves it. In an sdpa forward
    scores and probabilities are those of transformers' eager function over the same queries, keys and values."""
    functions = modeling_phi3.ALL_ATTENTION_FUNCTIONS
    original = functions.get_interface

    def watched(module, query, key, value, attention_mask, **settings):
        layer = module.layer_idx
        seen["attention_queries", layer] = query[0].transpose(0, 1)
        seen["attention_keys", layer] = key[0].transpose(0, 1)
        seen["attention_values", layer] = value[0].transpose(0, 1)
        interface = original(model.config._attn_implementation, modeling_phi3.eager_attention_forward)
        eager_mask = attention_mask
        if model.config._attn_implementation == "sdpa":
            eager_mask = _additive(attention_mask, query, key, model.config.sliding_window)
        with _softmax_input(seen, layer):
            eager_output, probabilities = modeling_phi3.eager_attention_forward(module, query, key, value, eager_mask, **settings)
        seen["attention_probabilities", layer] = probabilities[0]
        output = eager_output
        if model.config._attn_implementation == "sdpa":
            output, _ = interface(module, query, key, value, attention_mask, **settings)
        seen["attention_head_outputs", layer] = output[0]
        return output, None

    functions.get_interface = lambda *_: watched
    try:
        yield
    finally:
        del functions.get_interface


@contextlib.contextmanager
def _softmax_input(seen: dict, layer: int) -> Iterator[None]:
    original = torch.nn.functional.softmax

    def softmax(scores, *arguments, **settings):
        seen["attention_scores", layer] = scores[0]
        return original(scores, *arguments, **settings)

    torch.nn.functional.softmax = softmax
    try:
        yield
    finally:
        torch.nn.functional.softmax = original


def _additive(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor, window: int | None) -> torch.Tensor:
    """The eager mask of the same forward."""
    if mask is None:
        queries, keys = query.shape[2], key.shape[2]
        assert window is None or keys < window
        mask = torch.ones(1, 1, queries, keys, dtype=torch.bool).tril(keys - queries)
    return torch.where(mask, torch.zeros((), dtype=query.dtype), torch.finfo(query.dtype).min)
