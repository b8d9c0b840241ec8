"""What became of every request: none may be lost, none answered wrong."""

# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import pathlib
import threading
from collections.abc import Callable

import grpc
from google.protobuf import json_format
from phitap.errors import ChecksumError, IncompleteTraceError, RunError
from phitap.v1 import trace_pb2

import load_requests
from load_requests import Stub

ROOT = pathlib.Path(__file__).resolve().parents[2]
TECHNIQUES = ROOT / "tests" / "golden" / "techniques"
#: Of these: captures, edits, gradients, generation and grids, none with a kept tensor.
NAMES = ("collect", "logit_lens", "patchscope", "activation_patching_grid", "gradients", "phased_steering", "skip_layer",
         "interchange_residual", "mean_ablation", "attention_knockout")
PATIENCE_S = 60

ANSWERED = "answered"  # with the bytes that the same request gives when nobody disturbs
FAILED = "failed with a reason"
GIVEN_UP = "given up by the client"  # or by what stands between
LOST = "lost"  # neither answer nor reason
WRONG = "answered wrong"


@dataclasses.dataclass(frozen=True)
class Asked:
    name: str
    message: trace_pb2.TraceRequest
    #: Of the answer; empty where nobody knows it.
    digest: str


def small_requests(address: str) -> list[Asked]:
    """With what they give while nobody disturbs."""
    with load_requests.connect(address) as channel:
        stub = Stub(channel)
        requests = {name: json_format.Parse((TECHNIQUES / f"{name}.json").read_text(), trace_pb2.TraceRequest()) for name in NAMES}
        return [Asked(name, message, load_requests.read(stub.Trace(message)).digest) for name, message in requests.items()]


def large_request() -> trace_pb2.TraceRequest:
    """An answer of 38 MB: more than any buffer on its way takes."""
    request = trace_pb2.TraceRequest(model="demo")
    for run in range(12):
        request.runs.add(label=str(run)).prompt.tokens.ids.extend((run + 7 * i) % 1232 for i in range(512))
    request.captures.add(hook_points="layers.*.mlp_neurons")
    return request


class Ledger:
    """Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self.counts: collections.Counter[str] = collections.Counter()
        #: Codes of those that failed.
        self.reasons: collections.Counter[str] = collections.Counter()
        #: Of what may not be.
        self.troubles: list[str] = []

    @property
    def asked(self) -> int:
        return sum(self.counts.values())

    def note(self, outcome: str, why: str = "") -> None:
        with self._lock:
            self.counts[outcome] += 1
            if outcome == FAILED:
                self.reasons[why.split(":")[0]] += 1
            if outcome in (LOST, WRONG):
                self.troubles.append(f"{outcome}: {why}")

    def trouble(self, what: str) -> None:
        with self._lock:
            self.troubles.append(what)

    def ask(self, stub: Stub, asked: Asked, disturbed: bool = False, altered: bool = False, patience: float = PATIENCE_S) -> str:
        """disturbed: something stands between the client and the server, so that what ends the call is not the server's doing.
        altered: and it changes what is asked, so that the right answer may be another; that an answer came whole is all that is known."""
        outcome, why = self._outcome(lambda: load_requests.read(stub.Trace(asked.message, timeout=patience)), asked, disturbed)
        if altered and outcome == WRONG:
            outcome = GIVEN_UP
        self.note(outcome, why)
        return outcome

    def _outcome(self, send: Callable[[], load_requests.Answer], asked: Asked, disturbed: bool) -> tuple[str, str]:
        try:
            answer = send()
        except grpc.RpcError as error:
            if disturbed:
                return GIVEN_UP, error.code().name
            return (FAILED if error.details() else LOST), f"{error.code().name}: {error.details()}"
        except RunError as error:
            return FAILED, f"{error.code}: {error}"
        except (ChecksumError, IncompleteTraceError) as error:
            return LOST, f"{asked.name}: {error!r}"
        return (ANSWERED, "") if asked.digest in ("", answer.digest) else (WRONG, asked.name)
