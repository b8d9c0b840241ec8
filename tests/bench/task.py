"""A piece of work that every side is asked for."""

# SPDX-License-Identifier: Apache-2.0

import dataclasses
from collections.abc import Callable, Mapping

import torch
from phitap.v1 import trace_pb2

Requests = list[trace_pb2.TraceRequest]
#: By request and tensor, in the order of the answer.
Tensors = list[list[torch.Tensor]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """The same work for every side, with other prompts in each round.

    work: in words. method: of peers/peer.py's Peer; draw gives its arguments
    for a round. requests: the same, of phitap. values: phitap's answer in the
    form of the method's.
    rounds: unless the command line says otherwise. aim: bounds of the report's
    fields. at_once: each request from a client of its own, all at once.
    eager: the libraries have to be loaded with eager attention.
    own: other requests of phitap, to compare with, by name; they see the
    arguments of another round.
    linear: arguments of Transformers.linear_maps, what cannot be avoided.
    batches: sizes that a library may take; each takes its fastest. scale: how
    many times the sample that the libraries are asked for is in the whole, but
    for clean_outputs of the argument `clean`, which is done once.
    generated: the values are tokens, which are judged by their logits.
    """

    name: str
    work: str
    method: str
    draw: Callable[[int], dict]
    requests: Callable[[dict], Requests]
    values: Callable[[Tensors, dict], dict[str, torch.Tensor]]
    rounds: int = 7
    aim: Mapping[str, str] = dataclasses.field(default_factory=dict)
    at_once: bool = False
    eager: bool = False
    own: Mapping[str, Callable[[dict], Requests]] = dataclasses.field(
        default_factory=dict
    )
    linear: Mapping[str, int] | None = None
    batches: tuple[int, ...] = ()
    scale: float = 1
    generated: bool = False
