"""transformers' own forward with edits made by PyTorch hooks: what an edited run of ours must equal.

An edit is a function that changes a hook point's value in place, in the layout of a capture ([seq, …], [heads, seq, …],
[heads, query, key]), where the forward goes on with it.
"""

import contextlib
from collections.abc import Callable, Iterator

import torch
from transformers import Phi3ForCausalLM
from transformers.models.phi3 import modeling_phi3

#: (hook, layer) → edits in order; layer −1 for hooks of the whole model.
Edits = dict[tuple[str, int], list[Callable[[torch.Tensor], None]]]


class HookedForward:
    """One forward. `seen` has a copy of every value after its edits; with keep_graph the values themselves, for their gradients."""

    def __init__(self, model: Phi3ForCausalLM, edits: Edits = {}, keep_graph: bool = False):
        self.seen: dict[tuple[str, int], torch.Tensor] = {}
        self._model = model
        self._edits = edits
        self._keep_graph = keep_graph

    def __call__(self, ids: list[int], **arguments) -> torch.Tensor:
        """Logits [tokens, vocabulary] of a forward without cache."""
        grad = torch.enable_grad() if self._keep_graph else torch.no_grad()
        with grad, self.watching():
            return self._model(input_ids=torch.tensor([ids]), use_cache=False, **arguments).logits[0]

    def gradient(self, hook: str, layer: int) -> torch.Tensor:
        """After backward: of what was differentiated, with respect to a value, in its layout."""
        model = self._model.config
        width = getattr(model, "head_dim", None) or model.hidden_size // model.num_attention_heads
        queries, keys = model.num_attention_heads * width, model.num_key_value_heads * width
        of_qkv = {"attention_queries_pre_rotary": slice(queries), "attention_keys_pre_rotary": slice(queries, queries + keys)}
        if hook in of_qkv:
            gradient = self.seen["attention_qkv", layer].grad[..., of_qkv[hook]]
            return gradient[0].unflatten(-1, (-1, width)).transpose(0, 1)
        if hook in ("mlp_gate", "mlp_up"):
            return self.seen["mlp_gate_up", layer].grad[0].chunk(2, -1)[hook == "mlp_up"]
        gradient = self.seen[hook, layer].grad[0]
        return gradient.unflatten(-1, (-1, width)) if hook == "attention_premix" else gradient

    def _visit(self, hook: str, layer: int, value: torch.Tensor, part: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """value: as transformers has it. part: the view of it that the hook point is."""
        for edit in self._edits.get((hook, layer), ()):
            edit(part(value))
        if not self._keep_graph:
            self.seen[hook, layer] = part(value).clone()
        elif hook not in ("attention_queries_pre_rotary", "attention_keys_pre_rotary", "mlp_gate", "mlp_up"):  # their gradients are parts
            value.retain_grad()
            self.seen[hook, layer] = value

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Hooks in place; for forwards that the caller makes."""
        handles: list = []
        model = self._model.model
        self._output(handles, model.embed_tokens, "token_embeddings", -1)
        for i, layer in enumerate(model.layers):
            self._watch_layer(handles, layer, i)
        self._output(handles, model.norm, "final_norm_output", -1)
        self._output(handles, self._model.lm_head, "lm_head_output", -1)
        self._output(handles, self._model.lm_head, "logits", -1)
        functions = modeling_phi3.ALL_ATTENTION_FUNCTIONS
        functions.get_interface = lambda *_: self._attend
        try:
            yield
        finally:
            del functions.get_interface
            for handle in handles:
                handle.remove()

    def _output(self, handles: list, module: torch.nn.Module, hook: str, layer: int, part: Callable = None) -> None:
        handles.append(module.register_forward_hook(lambda _, __, out: self._visit(
            hook, layer, out[0] if isinstance(out, tuple) else out, part or _whole)))

    def _input(self, handles: list, module: torch.nn.Module, hook: str, layer: int, part: Callable = None) -> None:
        handles.append(module.register_forward_pre_hook(lambda _, given: self._visit(hook, layer, given[0], part or _whole)))

    def _watch_layer(self, handles: list, layer: torch.nn.Module, i: int) -> None:
        config = self._model.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads

        def by_head(first: int, count: int) -> Callable:
            return lambda qkv: qkv[0, :, first * width:(first + count) * width].unflatten(-1, (count, width)).transpose(0, 1)

        attention, mlp = layer.self_attn, layer.mlp
        self._input(handles, layer, "layer_input", i)
        self._output(handles, layer.input_layernorm, "attention_norm_output", i)
        self._output(handles, attention.qkv_proj, "attention_qkv", i)
        self._output(handles, attention.qkv_proj, "attention_queries_pre_rotary", i, by_head(0, heads))
        self._output(handles, attention.qkv_proj, "attention_keys_pre_rotary", i, by_head(heads, kv_heads))
        self._input(handles, attention.o_proj, "attention_premix", i, lambda joined: joined[0].unflatten(-1, (heads, width)))
        self._output(handles, attention.o_proj, "attention_output", i)
        self._input(handles, layer.post_attention_layernorm, "layer_mid", i)
        self._output(handles, layer.post_attention_layernorm, "mlp_norm_output", i)
        self._input(handles, mlp, "mlp_input", i)
        self._output(handles, mlp.gate_up_proj, "mlp_gate_up", i)
        self._output(handles, mlp.gate_up_proj, "mlp_gate", i, lambda both: both[0].chunk(2, -1)[0])
        self._output(handles, mlp.gate_up_proj, "mlp_up", i, lambda both: both[0].chunk(2, -1)[1])
        self._output(handles, mlp.activation_fn, "mlp_activation", i)
        self._input(handles, mlp.down_proj, "mlp_neurons", i)
        self._output(handles, mlp, "mlp_output", i)
        self._output(handles, layer, "layer_output", i)

    def _attend(self, module, query, key, value, attention_mask, **settings):
        layer = module.layer_idx
        self._visit("attention_queries", layer, query, _whole)
        self._visit("attention_keys", layer, key, _whole)
        self._visit("attention_values", layer, value, _whole)
        implementation = self._model.config._attn_implementation
        if implementation == "eager":
            with self._pattern_watched(layer):
                output, pattern = modeling_phi3.eager_attention_forward(module, query, key, value, attention_mask, **settings)
        else:
            sdpa = type(modeling_phi3.ALL_ATTENTION_FUNCTIONS).get_interface(modeling_phi3.ALL_ATTENTION_FUNCTIONS, implementation, None)
            output, pattern = sdpa(module, query, key, value, attention_mask, **settings)
        self._visit("attention_head_outputs", layer, output, _whole)
        return output, pattern

    @contextlib.contextmanager
    def _pattern_watched(self, layer: int) -> Iterator[None]:
        """The eager function's softmax and the dropout (of nothing) after it, which enclose scores and probabilities."""
        functions = torch.nn.functional
        softmax, dropout = functions.softmax, functions.dropout

        def scores(value, *arguments, **settings):
            self._visit("attention_scores", layer, value, _whole)
            return softmax(value, *arguments, **settings)

        def probabilities(value, **_):
            value = value.clone() if self._keep_graph else value  # backward of the softmax needs its output as it was
            self._visit("attention_probabilities", layer, value, _whole)
            return value

        functions.softmax, functions.dropout = scores, probabilities
        try:
            yield
        finally:
            functions.softmax, functions.dropout = softmax, dropout


def _whole(value: torch.Tensor) -> torch.Tensor:
    return value[0]
