# SPDX-License-Identifier: Apache-2.0
"""The server's own tokenizer class, asked line by line through build/*/bin/tokenizer_probe."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("PHITAP_TOKENIZER_PROBE", ROOT / "build/release/bin/tokenizer_probe"))


class Refused(Exception):
    """What the tokenizer answered instead of a result."""


class Probe:
    def __init__(self, folder):
        self._process = subprocess.Popen([BINARY, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def close(self):
        self._process.stdin.close()
        if self._process.wait() != 0:
            raise RuntimeError(f"tokenizer_probe ended with {self._process.returncode}")
        self._process.stdout.close()

    def _ask(self, op, **request):
        self._process.stdin.write(json.dumps({"op": op, **request}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    def encode(self, text):
        return self._ask("encode", text=text)

    def decode(self, ids, skip_special_tokens=False):
        return self._ask("decode", ids=ids, skip=skip_special_tokens)

    def token_text(self, token_id):
        return self._ask("token_text", id=token_id)

    def render(self, messages, add_generation_prompt):
        return self._ask("render", messages=messages, add_generation_prompt=add_generation_prompt)

    def encode_chat(self, messages, add_generation_prompt):
        return self._ask("encode_chat", messages=messages, add_generation_prompt=add_generation_prompt)
