"""Values of a recorded trace: arithmetic that builds the program instead of computing."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from phitap import tensors, values
from phitap.edits import Dictionary
from phitap.errors import RecordingError
from phitap.recording.indexing import expand_key, is_everything
from phitap.recording.unknown import Unknown
from phitap.trace import to_torch
from phitap.values import Value

if TYPE_CHECKING:
    from phitap.recording.recorder import TraceRecorder

class Recorded(Unknown):
    """A value that the server will compute, with the shapes that NumPy would give it: an integer index drops its dimension.

    On the server a dropped dimension stays with size 1 until something depends on its absence.

    save() sends it back; `value` is there once the trace is left. Everything is float32 but values that are only read.
    """

    __array_ufunc__ = None  # numpy leaves `array * value` to us

    def __init__(self, trace: "TraceRecorder", node: Optional[Value], dropped: Sequence[bool]):
        self._trace = trace
        self._node_or_none = node
        self._dropped = tuple(dropped)
        self._plain_or_none: Optional[Value] = None
        self._label: Optional[str] = None

    # What comes back.

    def save(self, dtype: Optional[str] = None) -> "Recorded":
        """Sends the value back, as it is at this point of the program; returns itself. dtype: on the wire, e.g. "float32"."""
        self._label = self._trace.capture(self, dtype=dtype)
        return self

    def keep(self, name: str) -> None:
        """Keeps the value on the server as a tensor of this name, for later requests."""
        self._trace.capture(self, tensor_name=name)

    @property
    def value(self):
        """The array, once the trace has been left; where a run generates, arrays by step."""
        if self._label is None:
            raise RecordingError("this value was not saved: call .save() on it inside the trace")
        return self._trace.answer(self._label, self._dropped)

    def torch(self):
        """The same as a torch tensor, which shares its memory."""
        return to_torch(self.value)

    # Shapes.

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._dropped) - sum(self._dropped)

    @property
    def node(self) -> Value:
        """The value of the program, with the dropped dimensions at size 1."""
        self._trace.check_open()
        return self._node_or_none

    def _plain(self) -> Value:
        """The value of the program without the dropped dimensions."""
        if not any(self._dropped):
            return self.node
        if self._plain_or_none is None:  # the largest of one element is that element, exactly
            self._plain_or_none = self.node.max([i for i, dropped in enumerate(self._dropped) if dropped])
        return self._plain_or_none

    def _kept(self) -> list[int]:
        return [i for i, dropped in enumerate(self._dropped) if not dropped]

    def _new(self, node: Value, dropped: Sequence[bool]) -> "Recorded":
        return Recorded(self._trace, node, dropped)

    def __getitem__(self, key: Any) -> "Recorded":
        node, dropped = self.node, list(self._dropped)
        for dimension, index in zip(self._kept(), expand_key(key, self.ndim, (Recorded,))):
            if isinstance(index, Recorded):
                node = node.gather(index._plain(), dimension)
            elif not is_everything(index):
                node = node.gather(index, dimension)
                dropped[dimension] = isinstance(index, numbers.Integral)
        return self._new(node, dropped)

    def reshape(self, *shape: int) -> "Recorded":
        """The same elements in another shape; at most one −1."""
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], numbers.Integral) else shape
        return self._new(self._plain().reshape(*shape), [False] * len(shape))

    def permute(self, *dimensions: int) -> "Recorded":
        """Dimensions in another order."""
        return self._new(self._plain().permute(*dimensions), [False] * self.ndim)

    @property
    def T(self) -> "Recorded":
        """Dimensions in reverse."""
        return self.permute(*reversed(range(self.ndim)))

    # Element by element.

    def _function(self, name: str, *inputs: Any) -> "Recorded":
        nodes, dropped = aligned(self._trace, inputs)
        return self._new(values.function(name, *nodes), dropped)

    def __add__(self, other): return self._function("ADD", self, other)
    def __radd__(self, other): return self._function("ADD", other, self)
    def __sub__(self, other): return self._function("SUBTRACT", self, other)
    def __rsub__(self, other): return self._function("SUBTRACT", other, self)
    def __mul__(self, other): return self._function("MULTIPLY", self, other)
    def __rmul__(self, other): return self._function("MULTIPLY", other, self)
    def __truediv__(self, other): return self._function("DIVIDE", self, other)
    def __rtruediv__(self, other): return self._function("DIVIDE", other, self)
    def __neg__(self): return self._function("NEGATE", self)
    def __abs__(self): return self._function("ABSOLUTE", self)
    def __lt__(self, other): return self._function("LESS", self, other)
    def __le__(self, other): return self._function("LESS_EQUAL", self, other)
    def __gt__(self, other): return self._function("LESS", other, self)
    def __ge__(self, other): return self._function("LESS_EQUAL", other, self)
    def __eq__(self, other): return self._function("EQUAL", self, other)
    def __ne__(self, other): return ~self._function("EQUAL", self, other)
    def __and__(self, other): return self._function("AND", self, other)
    def __or__(self, other): return self._function("OR", self, other)
    def __invert__(self): return self._function("NOT", self)
    __hash__ = object.__hash__

    def maximum(self, other): return self._function("MAXIMUM", self, other)
    def minimum(self, other): return self._function("MINIMUM", self, other)
    def abs(self): return self._function("ABSOLUTE", self)
    def exp(self): return self._function("EXP", self)
    def log(self): return self._function("LOG", self)
    def sqrt(self): return self._function("SQRT", self)
    def rsqrt(self): return self._function("RSQRT", self)
    def relu(self): return self._function("RELU", self)
    def silu(self): return self._function("SILU", self)
    def gelu(self): return self._function("GELU", self)
    def sigmoid(self): return self._function("SIGMOID", self)
    def tanh(self): return self._function("TANH", self)
    def jump_relu(self, threshold): return self._function("JUMP_RELU", self, threshold)

    def clamp(self, low: Optional[float] = None, high: Optional[float] = None) -> "Recorded":
        """min(max(self, low), high); None is no bound."""
        return self._new(self.node.clamp(low, high), self._dropped)

    def round(self, dtype: str) -> "Recorded":
        """Rounded to an element type and back."""
        return self._new(self.node.round(dtype), self._dropped)

    # Along dimensions.

    def sum(self, axis=None, keepdims=False, dim=None): return self._reduce("SUM", axis if dim is None else dim, keepdims)
    def mean(self, axis=None, keepdims=False, dim=None): return self._reduce("MEAN", axis if dim is None else dim, keepdims)
    def max(self, axis=None, keepdims=False, dim=None): return self._reduce("MAX", axis if dim is None else dim, keepdims)
    def min(self, axis=None, keepdims=False, dim=None): return self._reduce("MIN", axis if dim is None else dim, keepdims)
    def norm(self, axis=None, keepdims=False, dim=None): return self._reduce("NORM", axis if dim is None else dim, keepdims)

    def _reduce(self, kind: str, axis: Union[None, int, Sequence[int]], keepdims: bool) -> "Recorded":
        kept = self._kept()
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, numbers.Integral) else axis
        dimensions = sorted(kept[i] for i in axes)
        if not self._dropped:
            return self
        if axis is None and not keepdims:
            return self._new(self.node._reduce(kind, range(len(self._dropped)), False), ())
        dropped = [d for i, d in enumerate(self._dropped) if keepdims or i not in dimensions]
        return self._new(self.node._reduce(kind, dimensions, keepdims), dropped)

    def _along_last(self, operation: Callable[[Value], Value]) -> "Recorded":
        """An operation on the last dimension."""
        if self.ndim == 0:
            raise RecordingError("a single number has no last dimension")
        if self._dropped[-1]:
            return self._new(operation(self._plain()), [False] * self.ndim)
        return self._new(operation(self.node), self._dropped)

    def softmax(self, axis: int = -1, dim: Optional[int] = None) -> "Recorded":
        """Over the last dimension."""
        self._check_last(axis if dim is None else dim)
        return self._along_last(Value.softmax)

    def log_softmax(self, axis: int = -1, dim: Optional[int] = None) -> "Recorded":
        """The natural logarithm of the softmax."""
        self._check_last(axis if dim is None else dim)
        return self._along_last(Value.log_softmax)

    def _check_last(self, axis: int) -> None:
        if axis not in (-1, self.ndim - 1):
            raise RecordingError(f"softmax is over the last dimension; permute(…) dimension {axis} there")

    def topk(self, k: int) -> tuple["Recorded", "Recorded"]:
        """The k largest of the last dimension, best first, and their indices."""
        return self._along_last(lambda node: node.top_k(k)), self._along_last(lambda node: node.top_k(k, indices=True))

    def dot(self, other: Any) -> "Recorded":
        """Σ self · other over the last dimension."""
        (a, b), dropped = aligned(self._trace, (self, other))
        if dropped and dropped[-1]:
            (a, b), dropped = (self._plain(), lift(self._trace, other)._plain()), [False] * self.ndim
        return self._new(a.dot(b), (*dropped[:-1], True))

    def linear(self, weight: Any, bias: Any = None) -> "Recorded":
        """self [..., in] · weight [out, in]ᵀ, plus a bias [out]."""
        weight, bias = (None if w is None else lift(self._trace, w)._plain() for w in (weight, bias))
        return self._along_last(lambda node: node.linear(weight, bias))

    def __matmul__(self, other: Any) -> "Recorded":
        """self @ other: [..., n] @ [n] or [..., in] @ [in, out]."""
        other = lift(self._trace, other)
        if other.ndim == 1:
            return self.dot(other)
        if other.ndim != 2:
            raise RecordingError(f"a @ b needs b with one or two dimensions, not {other.ndim}")
        return self.linear(other.T)

    def __rmatmul__(self, other: Any) -> "Recorded":
        return lift(self._trace, other) @ self

    # What the model makes of it.

    def unembed(self, skip_final_norm: bool = False) -> "Recorded":
        """Final norm and head: logits."""
        return self._along_last(lambda node: node.unembed(skip_final_norm))

    def encode(self, dictionary: Dictionary) -> "Recorded":
        """Features of a dictionary that is kept on the server."""
        return self._along_last(lambda node: node.encode(dictionary))

    def decode(self, dictionary: Dictionary) -> "Recorded":
        """What features of a dictionary stand for."""
        return self._along_last(lambda node: node.decode(dictionary))

    def latch(self) -> "Recorded":
        """1 from the first generation step on at which any of it was true; one number."""
        return self._new(self.node.latch(), ())

    def backward(self):
        """Within `with metric.backward():`, the `grad` of a place in a run is ∂ metric / ∂ its value."""
        return self._trace.differentiating(self)

    @property
    def grad(self) -> "Recorded":
        """Only of places in a run: see backward."""
        raise RecordingError("only a value of a run, e.g. run.layers[2].layer_output[-1], has a gradient")

    def __repr__(self) -> str:
        return f"<phitap.recording value, {self.ndim} dimensions>"


def lift(trace: "TraceRecorder", value: Any) -> Recorded:
    """A recorded value of this trace as it is; a number or an array as one."""
    if isinstance(value, Recorded):
        if value._trace is not trace:
            raise RecordingError("this value belongs to another trace: save it there and use its .value here, or keep(name) it")
        return value
    if isinstance(value, numbers.Real):
        return Recorded(trace, values.of(float(value)), ())
    if tensors.is_array_like(value):
        node = values.constant(value)
        return Recorded(trace, node, [False] * node.payload.ndim)
    raise RecordingError(f"a value must be recorded, a number or an array, not {type(value).__name__}: {value!r}")


def aligned(trace: "TraceRecorder", inputs: Sequence[Any]) -> tuple[list[Value], tuple[bool, ...]]:
    """Nodes that broadcast on the server as the inputs do in NumPy, and the dropped dimensions of what comes of them."""
    lifted = [lift(trace, value) for value in inputs]
    sized = [value for value in lifted if value._dropped]
    layouts = {value._dropped for value in sized}
    if len(layouts) <= 1:
        return [value.node for value in lifted], next(iter(layouts), ())
    ndim = max(value.ndim for value in sized)
    if all(sorted(layout, reverse=True) == list(layout) for layout in layouts):  # dropped dimensions lead: they broadcast away
        size = max(map(len, layouts))
        return [value.node for value in lifted], (True,) * (size - ndim) + (False,) * ndim
    return [value._plain() for value in lifted], (False,) * ndim
