"""Client of phitap, the gRPC activation server for the Phi-3 family.

    import phitap

    with phitap.Client("127.0.0.1:7777") as client:
        trace = client.trace("When Mary and John went", captures=["layers.*.layer_output", "logits"], model="demo")
        trace["layers.3.layer_output"]  # numpy [tokens, hidden]
"""

from phitap.client import Client
from phitap.errors import (
    ChecksumError,
    ConnectionFailed,
    IncompleteTraceError,
    PhitapError,
    RequestError,
    RunError,
)
from phitap.request import (
    Capture,
    Prompt,
    Reduction,
    logit_lens,
    mean_over_positions,
    norm,
    top_k,
)
from phitap.trace import Header, Run, Summary, TensorSpec, Trace, TracePlan

__version__ = "0.1.0"

__all__ = [
    "Capture", "ChecksumError", "Client", "ConnectionFailed", "Header", "IncompleteTraceError", "PhitapError", "Prompt", "Reduction",
    "RequestError", "Run", "RunError", "Summary", "TensorSpec", "Trace", "TracePlan", "logit_lens", "mean_over_positions", "norm",
    "top_k",
]
