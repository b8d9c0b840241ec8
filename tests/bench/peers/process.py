#!/usr/bin/env python3
"""A library under the stopwatch: does what each line of standard input asks for
and answers with a line; measure.py drives it.

  {"do": "last_logits", "with": {"ids": [5, 9]}, "values": "/tmp/1"}
      a method of peers/peer.py's Peer and its arguments; where a file is given,
      what came out is kept there, as safetensors
  {"do": "linear_maps", "with": {"rows": 128, "layers": 8, "rest_of_last": 1}}
      transformers only, as is token_gaps

The first line, once the model is loaded, is {"ready": 3.2}, in seconds. Answers
are one of

  {"seconds": 0.1}
  {"cannot": "why"}    the library has no way to do it
  {"failed": "what"}   it has, and it failed
"""

# SPDX-License-Identifier: Apache-2.0

import argparse
import importlib
import json
import os
import pathlib
import sys
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A run as a script has this file's folder in front of the path.
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import torch
from safetensors.torch import save_file

from peers.peer import Peer

CLASSES = {
    "transformers": "Transformers",
    "nnterp": "Nnterp",
    "transformer_lens": "TransformerLens",
    "interp_engine": "InterpEngine",
}


def load(name: str, folder: str, eager: bool) -> Peer:
    module = importlib.import_module(f"peers.with_{name}")
    return getattr(module, CLASSES[name])(folder, eager)


def answer(peer: Peer, asked: dict) -> dict:
    method = getattr(peer, asked["do"])
    start = time.perf_counter()
    found = method(**asked["with"])
    seconds = time.perf_counter() - start
    if callable(found):  # it was prepared; now it is done
        start = time.perf_counter()
        found()
        return {"seconds": time.perf_counter() - start}
    if "values" in asked:
        keep(found, asked["values"])
    return {"seconds": seconds}


def keep(found: torch.Tensor | dict[str, torch.Tensor], path: str) -> None:
    named = found if isinstance(found, dict) else {"values": found}
    save_file(
        {name: t.detach().contiguous().clone() for name, t in named.items()},
        path,
    )


def answer_or_reason(peer: Peer, asked: dict) -> dict:
    try:
        return answer(peer, asked)
    except NotImplementedError as error:
        return {"cannot": str(error) or "it has no call for it"}
    except Exception as error:  # a library's fault is a result, not an end
        return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("library", choices=CLASSES)
    parser.add_argument("folder", help="a checkpoint")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument(
        "--eager",
        action="store_true",
        help="attention whose probabilities can be read",
    )
    return parser.parse_args()


def main() -> None:
    # Libraries print; standard output is for answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    arguments = parse_arguments()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(arguments.threads)
    start = time.perf_counter()
    peer = load(arguments.library, arguments.folder, arguments.eager)
    line = {"ready": time.perf_counter() - start}
    while True:
        print(json.dumps(line), file=answers, flush=True)
        try:
            asked = json.loads(input())
        except EOFError:
            return
        line = answer_or_reason(peer, asked)


if __name__ == "__main__":
    main()
