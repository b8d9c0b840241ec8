"""Writes a request: names the values that it uses, and sends each array once."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, Union

import xxhash

from phitap import tensors
from phitap.v1 import intervention_pb2, program_pb2, trace_pb2

if TYPE_CHECKING:
    from phitap.values import Value


class RequestBuilder:
    """A request in the making. Values become nodes of its program when something first refers to them."""

    def __init__(self) -> None:
        self.request = trace_pb2.TraceRequest()
        #: Where in the caller's program a field of the request comes from, by its path, e.g. `runs[0].interventions[2]`.
        self.lines: dict[str, str] = {}
        self._values: list[Value] = []
        self._names: dict[int, str] = {}
        self._arrays: dict[tuple, Union[program_pb2.Node, intervention_pb2.EditSource, str]] = {}
        self._inline_bytes = 0

    def node(self, value: "Value") -> str:
        """The name of the value's node, which is added if it is new, after what it is computed from."""
        waiting = [value]
        while waiting:
            current = waiting[-1]
            missing = [needed for needed in current.needs if id(needed) not in self._names]
            if id(current) in self._names or not missing:
                waiting.pop()
                if id(current) not in self._names:
                    self._add(current)
            else:
                waiting.extend(missing)
        return self._names[id(value)]

    def source(self, message: intervention_pb2.EditSource, value: Any) -> None:
        """Fills in where the right-hand side of an edit comes from.

        value: a number, an array, the name of a kept tensor, a RunValue, a MeanOfRuns or a Value.
        """
        from phitap.values import MeanOfRuns, RunValue, Value

        if isinstance(value, Value):
            read = value.as_read()
            if read is not None:  # a value that is only moved keeps its bits
                read.fill(message.run)
            elif value.kind == "tensor":
                self.array(message, value.payload)
            elif value.kind in ("number", "tensor_name"):
                setattr(message, value.kind, value.payload)
            else:
                message.node = self.node(value)
        elif isinstance(value, RunValue):
            value.fill(message.run)
        elif isinstance(value, MeanOfRuns):
            value.fill(message.mean_of_runs)
        elif isinstance(value, str):
            message.tensor_name = value
        elif isinstance(value, numbers.Real):
            message.number = float(value)
        elif tensors.is_array_like(value):
            self.array(message, value)
        else:
            raise TypeError("an edit's value must be a number, an array, the name of a kept tensor, a RunValue, a MeanOfRuns or a Value, "
                            f"not {type(value).__name__}: {value!r}")

    def array(self, message: Union[program_pb2.Node, intervention_pb2.EditSource], value: Any) -> None:
        """Fills in `tensor`, or from the second use of an array on, for all uses, `constant`."""
        array = tensors.to_array(value)
        key = (array.dtype.str, str(array.dtype), array.shape, xxhash.xxh3_128_digest(array))
        first = self._arrays.get(key)
        if first is None:
            self._inline_bytes += array.nbytes
            if self._inline_bytes > tensors.INLINE_LIMIT_BYTES:
                raise ValueError(f"the request's arrays come to more than {tensors.INLINE_LIMIT_BYTES >> 20} MiB (the last is {array.dtype} "
                                 f"{list(array.shape)}); upload it with client.put_tensor(name, array) and use the name instead")
            message.tensor.CopyFrom(tensors.tensor_message(array))
            self._arrays[key] = message
            return
        if not isinstance(first, str):
            name = f"array{sum(isinstance(known, str) for known in self._arrays.values())}"
            self.request.constants[name].CopyFrom(first.tensor)
            first.constant = name
            self._arrays[key] = first = name
        message.constant = first

    def _add(self, value: "Value") -> None:
        node = self.request.program.nodes.add()
        node.name = f"{value.kind if not value.label else value.label}_{len(self._values)}"
        self._names[id(value)] = node.name
        self.lines[f"program.nodes[{len(self._values)}]"] = value.line
        self._values.append(value)  # keeps it, and so its id, alive
        node.inputs.extend(self._names[id(needed)] for needed in value.inputs)
        if value.kind == "tensor":
            self.array(node, value.payload)
        elif value.kind == "function":
            node.function = value.payload
        elif value.kind == "number":
            node.number = value.payload
        elif value.kind == "tensor_name":
            node.tensor_name = value.payload
        elif value.kind in ("read", "noise", "gradient", "metric"):
            value.payload.fill(getattr(node, value.kind), self)
        else:
            getattr(node, value.kind).CopyFrom(value.payload)

