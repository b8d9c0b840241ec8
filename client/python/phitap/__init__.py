"""Client of phitap, the gRPC activation server for the Phi-3 family.

    import phitap

    with phitap.Client("127.0.0.1:7777") as client:
        trace = client.trace("When Mary and John went", captures=["layers.*.layer_output", "logits"], model="demo")
        trace["layers.3.layer_output"]  # numpy [tokens, hidden]

Edits are in phitap.edits, programs in phitap.values, metrics, gradients and sweeps in phitap.metrics, and a style that records them from
plain Python in phitap.recording (client.model(name).trace()).
"""

from phitap import edits, metrics, values
from phitap.client import Client
from phitap.connection import ConnectionRefused, Tls
from phitap.edits import Dictionary, Intervention
from phitap.errors import (
    ChecksumError,
    ConnectionFailed,
    IncompleteTraceError,
    PhitapError,
    RecordingError,
    RequestError,
    RunError,
)
from phitap.metrics import Gradient, Metric, Sweep
from phitap.request import (
    Capture,
    Generation,
    Options,
    Prompt,
    Reduction,
    logit_lens,
    mean_over_positions,
    norm,
    top_k,
    trace_message,
)
from phitap.selections import Selection
from phitap.stream import Arrived
from phitap.trace import Header, Run, Summary, TensorSpec, Token, Trace, TracePlan
from phitap.values import MeanOfRuns, RunValue, Value

__version__ = "0.1.0"

__all__ = [
    "Arrived", "Capture", "ChecksumError", "Client", "ConnectionFailed", "ConnectionRefused", "Dictionary", "Generation", "Gradient", "Header",
    "IncompleteTraceError", "Intervention", "MeanOfRuns", "Metric", "Options", "PhitapError", "Prompt", "RecordingError", "Reduction",
    "RequestError", "Run", "RunError", "RunValue", "Selection", "Summary", "Sweep", "TensorSpec", "Tls", "Token", "Trace", "TracePlan", "Value",
    "edits", "logit_lens", "mean_over_positions", "metrics", "norm", "top_k", "trace_message", "values",
]
