"""A style that feels like nnterp's and records the program instead of running code: see Model.trace."""

from phitap.recording.lenses import TargetPrompt, repeat_prompt
from phitap.recording.model import Model
from phitap.recording.place import Place
from phitap.recording.recorded import Recorded
from phitap.recording.recorder import TraceRecorder
from phitap.recording.run import RunRecorder

__all__ = ["Model", "Place", "Recorded", "RunRecorder", "TargetPrompt", "TraceRecorder", "repeat_prompt"]
