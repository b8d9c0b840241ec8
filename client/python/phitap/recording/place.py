"""Places in a recorded run: reading them is a source of the program, writing them an intervention."""

from __future__ import annotations

import dataclasses
import numbers
from typing import TYPE_CHECKING, Any, Optional

from phitap import edits
from phitap.edits import Dictionary
from phitap.errors import RecordingError
from phitap.lines import calling_line
from phitap.recording.indexing import expand_key, is_everything
from phitap.recording.recorded import Recorded, lift
from phitap.selections import Indices, Selection
from phitap.values import GradientOf, MeanOfRuns, RunValue, Value

if TYPE_CHECKING:
    from phitap.recording.run import RunRecorder

_FIELDS = {"seq": "positions", "num_heads": "heads", "num_kv_heads": "heads", "query": "queries", "key": "keys"}


@dataclasses.dataclass(frozen=True)
class Spot:
    """A part of a hook point of a run. sizes: of each dimension, None where it depends on the prompt; chosen: None means all of it."""

    run: "RunRecorder"
    hook_point: str
    dimension_names: tuple[str, ...]
    sizes: tuple[Optional[int], ...]
    chosen: tuple[Optional[Indices], ...]
    steps: Optional[Indices] = None

    def selection(self) -> Selection:
        chosen = {_FIELDS.get(name, "features"): indices for name, indices in zip(self.dimension_names, self.chosen)
                  if indices is not None}
        return Selection(**chosen, steps=self.steps)

    def may_meet(self, other: "Spot") -> bool:
        """Whether the two parts may have an element in common."""
        return not any(_disjoint(mine, theirs) for mine, theirs in zip(self.chosen, other.chosen))

    def size(self, dimension: int) -> Optional[int]:
        """Elements of the part along a dimension, if that can be told here."""
        chosen = self.chosen[dimension]
        if isinstance(chosen, list):
            return len(chosen)
        if isinstance(chosen, numbers.Integral):
            return 1
        if self.sizes[dimension] is None:
            return None
        return self.sizes[dimension] if chosen is None else len(range(self.sizes[dimension])[_as_slice(chosen)])


class Place(Recorded):
    """A value of a run at a hook point, or a part of it.

    `place[index]` is a part; `place[index] = value`, `+=`, `-=`, `*=`, `/=` and the methods that end in an underscore edit it. Reading
    gives the value as edited so far in the program: an edit through another name of the same place does not change what was read before.
    """

    def __init__(self, spot: Spot, dropped: tuple[bool, ...], writes_seen: int):
        super().__init__(spot.run._trace, None, dropped)
        self._spot = spot
        self._writes_seen = writes_seen
        self._line = calling_line()

    @property
    def node(self) -> Value:
        self._trace.check_open()
        if self._node_or_none is None:
            if self._spot.steps is not None:
                raise RecordingError("values of generation steps can be saved, but not computed with: programs read the prompt's pass")
            self._node_or_none = Value("read", self._read())
        return self._node_or_none

    def _read(self) -> RunValue:
        """What to read; its read time is settled when the trace is left and all edits are known."""
        read = RunValue(self._spot.run._label, self._spot.hook_point, self._spot.selection())
        self._trace.settle_later(read, self._spot, self._writes_seen, self._line)
        return read

    # Parts.

    def __getitem__(self, key: Any) -> Recorded:
        indices = expand_key(key, self.ndim, (Recorded,))
        kept = self._kept()
        chosen, dropped = list(self._spot.chosen), list(self._dropped)
        for dimension, index in zip(kept, indices):
            if is_everything(index):
                continue
            if chosen[dimension] is not None or isinstance(index, Recorded):
                return super().__getitem__(key)
            chosen[dimension] = index
            dropped[dimension] = isinstance(index, numbers.Integral)
        return Place(dataclasses.replace(self._spot, chosen=tuple(chosen)), tuple(dropped), self._writes_seen)

    def __setitem__(self, key: Any, value: Any) -> None:
        part = self[key]
        if not isinstance(part, Place):
            raise RecordingError("a part of a part cannot be edited: index the hook point once, e.g. layer_output[-1, 3:7]")
        part.set_(value)
        self._writes_seen = part._writes_seen

    # Edits. Each returns the place as it is then.

    def set_(self, value: Any, when: Optional[Recorded] = None) -> "Place":
        """x ← value"""
        if isinstance(value, Place) and value._spot == self._spot and value._writes_seen == self._spot.run._write_count(self._spot.hook_point):
            return self._follow(value)  # x += 1 ends by assigning to x what was edited already
        return self._edit("set", when, sources={"value": value})

    def add_(self, value: Any, scale: Optional[float] = None, when: Optional[Recorded] = None) -> "Place":
        """x ← x + scale · value; scale is 1 by default."""
        return self._edit("add", when, {"scale": scale}, {"value": value})

    def scale_(self, factor: Any, when: Optional[Recorded] = None) -> "Place":
        """x ← x · factor"""
        return self._edit("scale", when, sources={"value": factor})

    def zero_(self, when: Optional[Recorded] = None) -> "Place":
        """x ← 0"""
        return self._edit("set", when, sources={"value": 0.0})

    def project_out_(self, direction: Any, keep: float = 0.0, when: Optional[Recorded] = None) -> "Place":
        """x ← x − (1 − keep) · (x · u) u, u the unit vector along the direction."""
        return self._edit("project_out", when, {"keep": keep}, {"direction": direction})

    def clamp_projection_(self, direction: Any, low: Optional[float] = None, high: Optional[float] = None,
                          when: Optional[Recorded] = None) -> "Place":
        """x · u bounded."""
        return self._edit("clamp_projection", when, {"low": low, "high": high}, {"direction": direction})

    def swap_(self, from_: Any, to: Any, both: bool = False, when: Optional[Recorded] = None) -> "Place":
        """The part along one direction turned into the other; with both=True the two exchanged."""
        return self._edit("swap", when, {"both": both}, {"from": from_, "to": to})

    def clamp_(self, low: Optional[float] = None, high: Optional[float] = None, when: Optional[Recorded] = None) -> "Place":
        """x ← min(max(x, low), high)"""
        return self._edit("clamp", when, {"low": low, "high": high})

    def noise_(self, scale: float, seed: int = 0, when: Optional[Recorded] = None) -> "Place":
        """x ← x + scale · n, n standard normal."""
        return self._edit("noise", when, {"scale": scale, "seed": seed})

    def knockout_(self, when: Optional[Recorded] = None) -> "Place":
        """Selected queries do not see the selected keys; only at attention_scores."""
        return self._edit("knockout", when)

    def skip_(self, when: Optional[Recorded] = None) -> "Place":
        """A block passes its input on (layer_output); attention or MLP adds nothing (attention_output, mlp_output)."""
        return self._edit("skip", when)

    def subspace_(self, basis: Any, source: Any, mask: Any = None, when: Optional[Recorded] = None) -> "Place":
        """x ← x + ((s R − x R) ⊙ mask) Rᵀ"""
        return self._edit("subspace", when, sources={"basis": basis, "source": source, "mask": mask})

    def dictionary_(self, of: Dictionary, features=(), drop_error: bool = False, encode_hook: str = "",
                    when: Optional[Recorded] = None) -> "Place":
        """x ← x + decode(f′) − decode(f): see edits.dictionary."""
        made = edits.dictionary(self._spot.hook_point, of, features, drop_error, encode_hook)
        return self._edit("dictionary", when, made.settings)

    def __iadd__(self, value): return self.add_(value)
    def __isub__(self, value): return self.add_(value, scale=-1.0)
    def __imul__(self, value): return self.scale_(value)
    def __itruediv__(self, value): return self.set_(self / value)

    def _edit(self, change: str, when: Optional[Recorded], settings: dict = {}, sources: dict = {}) -> "Place":
        self._trace.check_open()
        run = self._spot.run
        given = {name: self._source(value) for name, value in sources.items() if value is not None}
        condition = run._condition(when)
        run._record(self._spot, edits.Intervention(self._spot.hook_point, change, self._spot.selection(), condition, settings, given,
                                                   calling_line()))
        self._writes_seen = run._write_count(self._spot.hook_point)
        return Place(self._spot, self._dropped, self._writes_seen)

    def _source(self, value: Any) -> Any:
        """The right-hand side of an edit, laid out as the part is on the server."""
        if isinstance(value, (str, RunValue, MeanOfRuns)):
            return value
        value = lift(self._trace, value)
        if not value._dropped:
            return value.node
        if value.ndim > self.ndim:
            raise RecordingError(f"a value of {value.ndim} dimensions does not fit a part of {self.ndim}")
        if value._dropped == self._dropped:
            return value.node
        after_last_drop = len(self._dropped) - 1 - max((i for i, dropped in enumerate(self._dropped) if dropped), default=-1)
        if value.ndim <= after_last_drop:  # it broadcasts over what was dropped
            leads = sorted(value._dropped, reverse=True) == list(value._dropped)
            return value.node if leads and len(value._dropped) <= len(self._dropped) else value._plain()
        return value._plain().reshape(*self._shape(value.ndim))

    def _shape(self, ndim: int) -> list[int]:
        """Of a value of the part's last `ndim` dimensions, with the dropped ones in between."""
        first = self._kept()[-ndim]
        sizes = [1 if self._dropped[i] else self._spot.size(i) for i in range(first, len(self._dropped))]
        if sizes.count(None) > 1:
            raise RecordingError("the value's shape cannot be told here: index with slices of one (e.g. 3:4) instead of integers on both sides")
        return [-1 if size is None else size for size in sizes]

    def _follow(self, value: "Place") -> "Place":
        self._writes_seen = value._writes_seen
        return self

    @property
    def grad(self) -> Recorded:
        """∂ metric / ∂ this place, within `with metric.backward():`."""
        read = RunValue(self._spot.run._label, self._spot.hook_point, self._spot.selection())
        self._trace.settle_later(read, self._spot, self._writes_seen, self._line, only_after=True)
        return self._new(Value("gradient", GradientOf(self._trace.metric(), read)), self._dropped)


def _disjoint(mine: Optional[Indices], theirs: Optional[Indices]) -> bool:
    sets = []
    for chosen in (mine, theirs):
        indices = [chosen] if isinstance(chosen, numbers.Integral) else chosen
        if not isinstance(indices, list):
            return False
        sets.append(set(indices))
    signs = {index < 0 for indices in sets for index in indices}
    return len(signs) == 1 and not sets[0] & sets[1]


def _as_slice(indices: Any) -> slice:
    return indices if isinstance(indices, slice) else slice(indices.start, indices.stop, indices.step)
