"""What Python would need to know of a value that is not computed yet."""

from __future__ import annotations

from phitap.errors import RecordingError

_LATER = "it is computed on the server, once the trace is left"


class Unknown:
    """Raises, saying what to do instead, wherever Python would need the value itself."""

    def __bool__(self):
        raise RecordingError(f"a recorded value is neither true nor false yet: {_LATER}. Use `with run.when(condition):` for edits that "
                             "depend on it, or trace.where(condition, a, b) for values")

    def __float__(self):
        raise RecordingError(f"a recorded value is no number yet: {_LATER}. Do arithmetic on it as it is, or save() it")

    __int__ = __index__ = __complex__ = __float__

    def __iter__(self):
        raise RecordingError("a recorded value cannot be iterated: index it, or use slices and lists of indices")

    def __len__(self):
        raise RecordingError("the length of a recorded value may depend on the prompt: use its other dimensions' sizes, e.g. model.hidden_size")

    def __array__(self, *_, **__):
        raise RecordingError(f"a recorded value is no array yet: {_LATER}. Its own methods do arithmetic; save() it for NumPy")

    def __contains__(self, _):
        raise RecordingError("a recorded value cannot be searched: compare with ==, and reduce with max()")
