"""Values that the server computes: a program, written as Python expressions.

    from phitap import values

    resid = values.read("clean", "layers.2.layer_output", positions=-1)
    plain = values.read("corrupt", "layers.2.layer_output", positions=-1)
    step = (resid - plain) * 0.5          # nothing is computed yet: a node of the program
    edits.add("layers.3.layer_output", step, positions=-1)

Shapes are the server's: a selected dimension stays, with its size, and shapes broadcast as in NumPy. Everything is float32. A value
becomes part of a request when an edit, a capture, a gradient or a metric of that request uses it.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Sequence
from typing import Any, Optional, Union

from phitap import tensors
from phitap.lines import calling_line
from phitap.selections import Indices, Selection, index_set
from phitap.v1 import intervention_pb2, program_pb2

READ_TIMES = {
    None: intervention_pb2.READ_TIME_UNSPECIFIED,
    "after": intervention_pb2.READ_TIME_AFTER,
    "before": intervention_pb2.READ_TIME_BEFORE,
}


@dataclasses.dataclass
class RunValue:
    """A value of a run, as the source of an edit or of a program.

    run: label of the run; in an edit "" is the run that is edited. hook_point: in an edit "" is the one that is edited. selection: which
    part; in an edit None is the part that is edited. read_time: "after" (default) or "before" the interventions there.
    """

    run: str = ""
    hook_point: str = ""
    selection: Optional[Selection] = None
    read_time: Optional[str] = None

    def fill(self, message: intervention_pb2.RunValue, builder: Any = None) -> None:
        if self.read_time not in READ_TIMES:
            raise ValueError(f"read_time {self.read_time!r} is not known; valid: 'after', 'before'")
        message.run, message.hook_point, message.read_time = self.run, self.hook_point, READ_TIMES[self.read_time]
        selection = self.selection.message() if self.selection is not None else None
        if selection is not None:
            message.selection.CopyFrom(selection)
        message.SetInParent()


@dataclasses.dataclass(frozen=True)
class MeanOfRuns:
    """The mean of a hook point's value over runs, as the source of an edit.

    runs: their labels. hook_point, selection: as in RunValue. over_positions: take the mean over positions as well, so that prompts may
    differ in length.
    """

    runs: Sequence[str]
    hook_point: str = ""
    selection: Optional[Selection] = None
    over_positions: bool = False

    def fill(self, message: intervention_pb2.MeanOfRuns) -> None:
        message.runs.extend(self.runs)
        message.hook_point, message.over_positions = self.hook_point, self.over_positions
        selection = self.selection.message() if self.selection is not None else None
        if selection is not None:
            message.selection.CopyFrom(selection)
        message.SetInParent()


@dataclasses.dataclass(frozen=True)
class Noise:
    """Payload of a noise node."""

    like: RunValue
    seed: int

    def fill(self, message: program_pb2.NoiseSource, builder: Any) -> None:
        self.like.fill(message.like)
        message.seed = self.seed


@dataclasses.dataclass(frozen=True)
class GradientOf:
    """Payload of a gradient node."""

    of: "Value"
    with_respect_to: RunValue

    def fill(self, message: program_pb2.GradientSource, builder: Any) -> None:
        message.of = builder.node(self.of)
        self.with_respect_to.fill(message.with_respect_to)


class Value:
    """A value of a program; made by read, constant and their like, and by arithmetic on values. Immutable."""

    __slots__ = ("kind", "payload", "inputs", "label", "line")
    __array_ufunc__ = None  # numpy leaves `array * value` to us

    def __init__(self, kind: str, payload: Any = None, inputs: Sequence["Value"] = (), label: str = ""):
        #: Field of the node's operation in program.proto.
        self.kind = kind
        self.payload = payload
        self.inputs = tuple(inputs)
        #: What its node's name begins with.
        self.label = label
        #: Where in the caller's program it was made.
        self.line = calling_line()

    @property
    def needs(self) -> tuple["Value", ...]:
        """Values whose nodes must be there before its own."""
        of = getattr(self.payload, "of", None)
        return self.inputs + ((of,) if isinstance(of, Value) else ())

    def as_read(self) -> Optional[RunValue]:
        """What it reads, if it is nothing but a value of a run."""
        return self.payload if self.kind == "read" else None

    def __add__(self, other): return function("ADD", self, other)
    def __radd__(self, other): return function("ADD", other, self)
    def __sub__(self, other): return function("SUBTRACT", self, other)
    def __rsub__(self, other): return function("SUBTRACT", other, self)
    def __mul__(self, other): return function("MULTIPLY", self, other)
    def __rmul__(self, other): return function("MULTIPLY", other, self)
    def __truediv__(self, other): return function("DIVIDE", self, other)
    def __rtruediv__(self, other): return function("DIVIDE", other, self)
    def __neg__(self): return function("NEGATE", self)
    def __abs__(self): return function("ABSOLUTE", self)
    def __lt__(self, other): return function("LESS", self, other)
    def __le__(self, other): return function("LESS_EQUAL", self, other)
    def __gt__(self, other): return function("LESS", other, self)
    def __ge__(self, other): return function("LESS_EQUAL", other, self)
    def __and__(self, other): return function("AND", self, other)
    def __or__(self, other): return function("OR", self, other)
    def __invert__(self): return function("NOT", self)

    def equal(self, other: Any) -> "Value":
        """1 where it equals the other, else 0."""
        return function("EQUAL", self, other)

    def maximum(self, other): return function("MAXIMUM", self, other)
    def minimum(self, other): return function("MINIMUM", self, other)
    def abs(self): return function("ABSOLUTE", self)
    def exp(self): return function("EXP", self)
    def log(self): return function("LOG", self)
    def sqrt(self): return function("SQRT", self)
    def rsqrt(self): return function("RSQRT", self)
    def relu(self): return function("RELU", self)
    def silu(self): return function("SILU", self)
    def gelu(self): return function("GELU", self)
    def sigmoid(self): return function("SIGMOID", self)
    def tanh(self): return function("TANH", self)
    def jump_relu(self, threshold): return function("JUMP_RELU", self, threshold)

    def linear(self, weight: Any, bias: Any = None) -> "Value":
        """self [..., in] · weight [out, in]ᵀ, plus a bias [out]."""
        return Value("linear", program_pb2.Linear(), [self, of(weight)] + ([] if bias is None else [of(bias)]))

    def dot(self, other: Any) -> "Value":
        """Σ self · other over the last dimension, which stays with size 1."""
        return Value("dot", program_pb2.Dot(), [self, of(other)])

    def sum(self, dimensions: Sequence[int] = (), keep: bool = False): return self._reduce("SUM", dimensions, keep)
    def mean(self, dimensions: Sequence[int] = (), keep: bool = False): return self._reduce("MEAN", dimensions, keep)
    def max(self, dimensions: Sequence[int] = (), keep: bool = False): return self._reduce("MAX", dimensions, keep)
    def min(self, dimensions: Sequence[int] = (), keep: bool = False): return self._reduce("MIN", dimensions, keep)
    def norm(self, dimensions: Sequence[int] = (), keep: bool = False): return self._reduce("NORM", dimensions, keep)

    def _reduce(self, kind: str, dimensions: Union[int, Sequence[int]], keep: bool) -> "Value":
        dimensions = [dimensions] if isinstance(dimensions, numbers.Integral) else list(dimensions)
        message = program_pb2.Reduce(kind=program_pb2.ReduceKind.Value(f"REDUCE_KIND_{kind}"), dimensions=dimensions, keep=keep)
        return Value("reduce", message, [self])

    def softmax(self) -> "Value":
        """Softmax over the last dimension."""
        return Value("softmax", program_pb2.Softmax(), [self])

    def log_softmax(self) -> "Value":
        """Its natural logarithm."""
        return Value("softmax", program_pb2.Softmax(log=True), [self])

    def clamp(self, low: Optional[float] = None, high: Optional[float] = None) -> "Value":
        """min(max(self, low), high); None is no bound."""
        return Value("clamp", program_pb2.Clamp(low=low, high=high), [self])

    def top_k(self, k: int, indices: bool = False) -> "Value":
        """The k largest of the last dimension, best first, or their indices."""
        return Value("top_k", program_pb2.TopKOf(k=k, indices=indices), [self])

    def gather(self, indices: Union[Indices, "Value"], dimension: int = -1) -> "Value":
        """The part with these indices along a dimension."""
        if isinstance(indices, Value):
            return Value("gather", program_pb2.Gather(dimension=dimension), [self, indices])
        return Value("gather", program_pb2.Gather(dimension=dimension, indices=index_set(indices)), [self])

    def scatter(self, replacement: Any, indices: Indices, dimension: int = -1) -> "Value":
        """self with the replacement at these indices along a dimension."""
        return Value("scatter", program_pb2.Scatter(dimension=dimension, indices=index_set(indices)), [self, of(replacement)])

    def reshape(self, *shape: int) -> "Value":
        """The same elements in another shape; at most one −1."""
        return Value("reshape", program_pb2.Reshape(shape=shape), [self])

    def permute(self, *dimensions: int) -> "Value":
        """Dimensions in another order."""
        return Value("permute", program_pb2.Permute(dimensions=dimensions), [self])

    def unembed(self, skip_final_norm: bool = False) -> "Value":
        """Final norm and head: logits."""
        return Value("unembed", program_pb2.Unembed(skip_final_norm=skip_final_norm), [self])

    def encode(self, dictionary: "Any") -> "Value":
        """Features of an edits.Dictionary."""
        return Value("encode", program_pb2.Encode(dictionary=dictionary.message()), [self])

    def decode(self, dictionary: "Any") -> "Value":
        """What features of an edits.Dictionary stand for."""
        return Value("decode", program_pb2.Decode(dictionary=dictionary.message()), [self])

    def latch(self) -> "Value":
        """1 from the first generation step on at which any of it was true, before that 0."""
        return Value("latch", program_pb2.Latch(), [self])

    def round(self, dtype: str) -> "Value":
        """Rounded to "float32", "float16" or "bfloat16" and back."""
        return Value("round", program_pb2.Round(dtype=tensors.DTYPE_NAMES[dtype]), [self])

    def __bool__(self):
        raise TypeError("a Value is computed on the server later, so Python cannot branch on it; use values.where(condition, a, b), or an "
                        "edit's when=condition")

    def __repr__(self) -> str:
        return f"<phitap.Value {self.label or self.kind}({', '.join(value.kind for value in self.inputs)})>"


def read(run: str, hook_point: str, *, read_time: Optional[str] = None, **selection: Any) -> Value:
    """A value of a run; selection: positions=…, heads=… and so on, as in Selection."""
    return Value("read", RunValue(run, hook_point, Selection(**selection) if selection else None, read_time))


def constant(array: Any) -> Value:
    """A small array; upload larger ones with Client.put_tensor."""
    return Value("tensor", tensors.to_array(array))


def kept(name: str) -> Value:
    """A tensor kept on the server: see Client.put_tensor and Capture.tensor_name."""
    return Value("tensor_name", name)


def noise(like: RunValue, seed: int) -> Value:
    """Standard normal noise in the place of a value: the same that edits.noise adds there."""
    return Value("noise", Noise(like, seed))


def gradient(of: Value, with_respect_to: RunValue) -> Value:
    """∂ of / ∂ the run's value; `of` has one element."""
    return Value("gradient", GradientOf(of, with_respect_to))


def where(condition: Any, then: Any, otherwise: Any) -> Value:
    """then where the condition is true (not 0), otherwise where not."""
    return function("WHERE", condition, then, otherwise)


def concatenate(parts: Sequence[Any], dimension: int = -1) -> Value:
    """One after another along a dimension."""
    return Value("concatenate", program_pb2.Concatenate(dimension=dimension), [of(part) for part in parts])


def function(name: str, *inputs: Any) -> Value:
    """A Function of program.proto by its name, e.g. "ADD", of values, arrays and numbers."""
    return Value("function", program_pb2.Function.Value(f"FUNCTION_{name}"), [of(value) for value in inputs], name.lower())


def of(value: Any) -> Value:
    """A Value as it is; a number or an array as one."""
    if isinstance(value, Value):
        return value
    if isinstance(value, numbers.Real):
        return Value("number", float(value))
    if tensors.is_array_like(value):
        return constant(value)
    raise TypeError(f"a value must be a number, an array or a Value, not {type(value).__name__}: {value!r}")
