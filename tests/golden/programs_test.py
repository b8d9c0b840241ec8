"""Programs: random valid graphs, every node of which is compared with PyTorch's answer on the node's own inputs; and graphs that cannot
work, refused with the node named.
"""

import random
from collections.abc import Callable

import grpc
import numpy as np
import pytest
import torch

import phitap
from checkpoint_kinds import VOCABULARY, make_checkpoint
from phitap import values
from phitap.v1 import program_pb2, trace_pb2
from phitap.values import Value
from served import serve

RUNS = {"a": [5, 3, 1, 9, 7, 4], "b": [2, 8, 6, 1]}
#: Functions and what PyTorch calls them; truths are 1 and 0.
UNARY = {
    "NEGATE": torch.neg, "ABSOLUTE": torch.abs, "EXP": torch.exp, "LOG": torch.log, "SQRT": torch.sqrt, "RSQRT": torch.rsqrt,
    "RELU": torch.relu, "SILU": torch.nn.functional.silu, "GELU": torch.nn.functional.gelu, "SIGMOID": torch.sigmoid, "TANH": torch.tanh,
    "NOT": lambda a: (a == 0).float(),
}
BINARY = {
    "ADD": torch.add, "SUBTRACT": torch.sub, "MULTIPLY": torch.mul, "DIVIDE": torch.div, "MAXIMUM": torch.maximum,
    "MINIMUM": torch.minimum, "JUMP_RELU": lambda a, b: torch.where(a > b, a, 0.0), "LESS": lambda a, b: (a < b).float(),
    "LESS_EQUAL": lambda a, b: (a <= b).float(), "EQUAL": lambda a, b: (a == b).float(),
    "AND": lambda a, b: ((a != 0) & (b != 0)).float(), "OR": lambda a, b: ((a != 0) | (b != 0)).float(),
}
REDUCTIONS = {"SUM": torch.sum, "MEAN": torch.mean, "MAX": torch.amax, "MIN": torch.amin, "NORM": torch.linalg.vector_norm}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "gqa", "gqa")
    for address in serve({"gqa": folder}, tmp_path_factory.mktemp("server"), "float32", 2):
        with phitap.Client(address, timeout=120) as client:
            yield client


class Graph:
    """A random program. Each node: its value for the request, and what PyTorch makes of its inputs' values."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.nodes: list[Value] = []
        self.shapes: list[tuple[int, ...]] = []
        self.formulas: list[tuple[Callable, list[int]]] = []
        hidden = 64
        for run, ids in RUNS.items():
            self._source(values.read(run, f"layers.{self.random.randrange(2)}.layer_output"), (len(ids), hidden))
            self._source(values.read(run, "layers.1.attention_queries", heads=[2, 0]), (2, len(ids), 8))
        self._source(values.read("a", "logits", positions=-1, features=slice(0, 12)), (1, 12))
        for shape in ((), (hidden,), (3, hidden), (2, 1, 8), (4, 6, 8)):
            drawn = torch.randn(shape, generator=self.generator)
            self._source(values.constant(drawn), shape)
        while len(self.nodes) < 45:
            self.random.choice([self._unary, self._binary, self._binary, self._where, self._reduce, self._softmax, self._clamp, self._top_k,
                                self._gather, self._scatter, self._reshape, self._permute, self._concatenate, self._linear, self._dot,
                                self._round])()

    def _source(self, value: Value, shape: tuple[int, ...]) -> None:
        self.nodes.append(value)
        self.shapes.append(shape)
        self.formulas.append((None, []))

    def _pick(self, fits: Callable = lambda shape: True) -> int | None:
        candidates = [i for i, shape in enumerate(self.shapes) if fits(shape)]
        return self.random.choice(candidates) if candidates else None

    def _add(self, value: Value, inputs: list[int], formula: Callable) -> None:
        shape = tuple(formula(*(torch.zeros(self.shapes[i]) for i in inputs)).shape)
        if int(np.prod(shape)) > 100_000:
            return
        self.nodes.append(value)
        self.shapes.append(shape)
        self.formulas.append((formula, inputs))

    def _unary(self) -> None:
        name, i = self.random.choice(list(UNARY)), self._pick()
        self._add(values.function(name, self.nodes[i]), [i], UNARY[name])

    def _broadcasting(self, count: int) -> list[int] | None:
        for _ in range(20):
            chosen = [self._pick() for _ in range(count)]
            try:
                torch.broadcast_shapes(*(self.shapes[i] for i in chosen))
                return chosen
            except RuntimeError:
                continue
        return None

    def _binary(self) -> None:
        name, chosen = self.random.choice(list(BINARY)), self._broadcasting(2)
        if chosen:
            self._add(values.function(name, *(self.nodes[i] for i in chosen)), chosen, BINARY[name])

    def _where(self) -> None:
        chosen = self._broadcasting(3)
        if chosen:
            self._add(values.where(*(self.nodes[i] for i in chosen)), chosen, lambda a, b, c: torch.where(a != 0, b, c))

    def _reduce(self) -> None:
        name, i = self.random.choice(list(REDUCTIONS)), self._pick(lambda shape: shape)
        rank = len(self.shapes[i])
        dimensions = self.random.sample(range(rank), self.random.randint(1, rank))
        keep = self.random.random() < 0.5
        signed = [d - rank if self.random.random() < 0.5 else d for d in dimensions]
        self._add(self.nodes[i]._reduce(name, signed, keep), [i], lambda x: REDUCTIONS[name](x, dim=dimensions, keepdim=keep))

    def _softmax(self) -> None:
        i = self._pick(lambda shape: shape)
        if self.random.random() < 0.5:
            self._add(self.nodes[i].softmax(), [i], lambda x: torch.softmax(x, -1))
        else:
            self._add(self.nodes[i].log_softmax(), [i], lambda x: torch.log_softmax(x, -1))

    def _clamp(self) -> None:
        i = self._pick()
        low, high = self.random.choice([(-0.5, 0.25), (None, 0.25), (-0.5, None)])
        self._add(self.nodes[i].clamp(low, high), [i], lambda x: x.clamp(low, high))

    def _top_k(self) -> None:
        i = self._pick(lambda shape: shape)
        k, indices = self.random.randint(1, self.shapes[i][-1]), self.random.random() < 0.5

        def formula(x):
            order = torch.sort(x, dim=-1, descending=True, stable=True)
            return order.indices[..., :k].float() if indices else order.values[..., :k]

        self._add(self.nodes[i].top_k(k, indices), [i], formula)

    def _indices(self, size: int) -> list[int]:
        return self.random.sample(range(size), self.random.randint(1, size))

    def _gather(self) -> None:
        i = self._pick(lambda shape: shape)
        dimension = self.random.randrange(len(self.shapes[i]))
        indices = self._indices(self.shapes[i][dimension])
        self._add(self.nodes[i].gather(indices, dimension), [i], lambda x: x.index_select(dimension, torch.tensor(indices)))

    def _scatter(self) -> None:
        i = self._pick(lambda shape: shape)
        dimension = self.random.randrange(len(self.shapes[i]))
        indices = self._indices(self.shapes[i][dimension])
        part = torch.randn([len(indices) if d == dimension else size for d, size in enumerate(self.shapes[i])], generator=self.generator)
        self._add(self.nodes[i].scatter(part, indices, dimension), [i], lambda x: x.index_copy(dimension, torch.tensor(indices), part))

    def _reshape(self) -> None:
        i = self._pick(lambda shape: len(shape) > 1)
        shape = self.random.choice([(-1,), (-1, self.shapes[i][-1]), (*self.shapes[i][::-1],)])
        self._add(self.nodes[i].reshape(*shape), [i], lambda x: x.reshape(shape))

    def _permute(self) -> None:
        i = self._pick(lambda shape: len(shape) > 1)
        order = self.random.sample(range(len(self.shapes[i])), len(self.shapes[i]))
        self._add(self.nodes[i].permute(*order), [i], lambda x: x.permute(order))

    def _concatenate(self) -> None:
        i = self._pick(lambda shape: shape)
        dimension = self.random.randrange(len(self.shapes[i]))

        def alike(shape):
            return len(shape) == len(self.shapes[i]) and all(
                a == b or d == dimension for d, (a, b) in enumerate(zip(shape, self.shapes[i])))

        chosen = [i] + [self._pick(alike) for _ in range(self.random.randint(0, 2))]
        self._add(values.concatenate([self.nodes[j] for j in chosen], dimension), chosen, lambda *parts: torch.cat(parts, dimension))

    def _linear(self) -> None:
        i = self._pick(lambda shape: shape)
        weight = torch.randn(5, self.shapes[i][-1], generator=self.generator)
        bias = torch.randn(5, generator=self.generator) if self.random.random() < 0.5 else None
        self._add(self.nodes[i].linear(weight, bias), [i], lambda x: torch.nn.functional.linear(x, weight, bias))

    def _dot(self) -> None:
        chosen = self._broadcasting(2)
        if chosen and all(self.shapes[i] for i in chosen):
            self._add(self.nodes[chosen[0]].dot(self.nodes[chosen[1]]), chosen, lambda a, b: (a * b).sum(-1, keepdim=True))

    def _round(self) -> None:
        i, dtype = self._pick(), self.random.choice(["float16", "bfloat16"])
        self._add(self.nodes[i].round(dtype), [i], lambda x: x.to(getattr(torch, dtype)).float())


@pytest.mark.parametrize("seed", range(24))
def test_every_node_of_a_random_program_is_what_pytorch_makes_of_its_inputs(client, seed):
    graph = Graph(seed)
    captures = [phitap.Capture(label=f"node{i}", node=node) for i, node in enumerate(graph.nodes)]
    numerics = ["causal", "transformers"][seed % 2]
    trace = client.trace([phitap.Prompt(ids, label) for label, ids in RUNS.items()], captures, model="gqa", numerics=numerics)
    found = [trace.torch(capture.label).float() for capture in captures]
    assert [tuple(value.shape) for value in found] == graph.shapes
    for i, (formula, inputs) in enumerate(graph.formulas):
        if formula is None:
            continue
        expected = formula(*(found[j] for j in inputs))
        scale = max([1e-30] + [float(found[j][found[j].isfinite()].abs().max()) for j in inputs if found[j].isfinite().any()])
        close = torch.isclose(found[i], expected, rtol=1e-5, atol=1e-6 * scale, equal_nan=True)
        assert close.all(), (i, graph.nodes[i], found[i][~close][:3], expected[~close][:3])


def test_reads_are_the_captured_values(client):
    reads = {"layers.1.mlp_output": values.read("a", "layers.1.mlp_output"), "logits": values.read("a", "logits")}
    trace = client.trace([phitap.Prompt(RUNS["a"], "a")], [*reads, *(phitap.Capture(label=f"node {hook}", node=node)
                                                                     for hook, node in reads.items())], model="gqa")
    for hook in reads:
        assert np.array_equal(trace[hook], trace[f"node {hook}"])


def test_unembed_is_the_final_norm_and_the_head(client):
    stream = values.read("a", "layers.1.layer_output")
    normed = values.read("a", "final_norm_output")
    trace = client.trace([phitap.Prompt(RUNS["a"], "a")], [
        "logits", phitap.Capture(label="from stream", node=stream.unembed()),
        phitap.Capture(label="from norm", node=normed.unembed(skip_final_norm=True))], model="gqa")
    assert np.array_equal(trace["from stream"], trace["logits"])
    assert np.array_equal(trace["from norm"], trace["logits"])


def node(name: str, inputs: tuple[str, ...] = (), **operation) -> program_pb2.Node:
    return program_pb2.Node(name=name, inputs=inputs, **operation)


NUMBER = node("one", number=1.0)
VECTOR = node("v", tensor=phitap.tensors.tensor_message(np.arange(3, dtype=np.float32)))


@pytest.mark.parametrize(("nodes", "fragments"), [
    ([node("x", ("y",), function=program_pb2.FUNCTION_NEGATE), node("y", ("x",), function=program_pb2.FUNCTION_NEGATE)], ["x", "y"]),
    ([node("x", ("oen",), function=program_pb2.FUNCTION_NEGATE), NUMBER], ["oen", "one"]),
    ([NUMBER, NUMBER], ["program.nodes[1]", "one"]),
    ([node("x", ("one",), function=program_pb2.FUNCTION_ADD), NUMBER], ["program.nodes[0]"]),
    ([node("x"), NUMBER], ["program.nodes[0]"]),
    ([node("x", ("v", "w"), function=program_pb2.FUNCTION_ADD), VECTOR,
      node("w", tensor=phitap.tensors.tensor_message(np.zeros(2, np.float32)))], ["program.nodes[0]"]),
    ([node("x", ("v",), reduce=program_pb2.Reduce(kind=program_pb2.REDUCE_KIND_SUM, dimensions=[1])), VECTOR], ["program.nodes[0]"]),
    ([node("x", ("v",), top_k=program_pb2.TopKOf(k=4)), VECTOR], ["program.nodes[0]", "k"]),
    ([node("x", ("v",), reshape=program_pb2.Reshape(shape=[2, 2])), VECTOR], ["program.nodes[0]"]),
    ([node("x", ("v",), permute=program_pb2.Permute(dimensions=[1])), VECTOR], ["program.nodes[0]"]),
    ([node("x", ("v",), clamp=program_pb2.Clamp()), VECTOR], ["program.nodes[0]"]),
    ([node("x", constant="c"), VECTOR], ["program.nodes[0]", "c"]),
    ([node("x", tensor_name="nobody"), VECTOR], ["program.nodes[0]", "nobody"]),
    ([node("x", number=float("nan")), VECTOR], ["program.nodes[0]"]),
    ([node("x", read={"run": "0", "hook_point": "layers.7.layer_output"}), VECTOR], ["program.nodes[0]"]),
    ([node("x", read={"run": "1", "hook_point": "logits"}), VECTOR], ["program.nodes[0]", "1"]),
    ([node("x", ("v",), unembed={}), VECTOR], ["program.nodes[0]"]),
])
def test_a_program_that_cannot_work_is_refused_and_the_node_named(client, nodes, fragments):
    request = trace_pb2.TraceRequest(model="gqa", program=program_pb2.Program(nodes=nodes))
    request.runs.add().prompt.tokens.ids.extend([1, 2, 3])
    request.captures.add(label="x", node=nodes[0].name)
    with pytest.raises(phitap.RequestError) as refused:
        client.send(request)
    assert refused.value.code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    assert all(fragment in refused.value.message for fragment in fragments), refused.value.message
