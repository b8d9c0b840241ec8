"""The real server, started once, with the demo model and small checkpoints of other kinds."""

import os
import pathlib
import subprocess
import time

import pytest

import phitap

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEMO = ROOT / "deploy" / "demo-model"
SERVER = pathlib.Path(os.environ.get("PHITAPD", ROOT / "build" / "release" / "bin" / "phitapd"))


def make_checkpoint(folder: pathlib.Path, dtype: str, **config) -> pathlib.Path:
    """A seeded random checkpoint without a tokenizer, written by transformers."""
    import torch
    from transformers import Phi3Config, Phi3ForCausalLM

    torch.manual_seed(3)
    settings = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, max_position_embeddings=256, original_max_position_embeddings=256, pad_token_id=0,
                    bos_token_id=1, eos_token_id=2)
    model = Phi3ForCausalLM(Phi3Config(**{**settings, **config})).eval().to(getattr(torch, dtype))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> dict[str, pathlib.Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    return {
        "small": make_checkpoint(base / "small", "float32"),
        "half": make_checkpoint(base / "half", "float16"),
        "windowed": make_checkpoint(base / "windowed", "bfloat16", sliding_window=7),
    }


@pytest.fixture(scope="session")
def address(tmp_path_factory, checkpoints) -> str:
    assert SERVER.exists(), f"{SERVER} is not built: run tests/run.sh, or set PHITAPD"
    folder = tmp_path_factory.mktemp("server")
    models = [f"--model={name}={path}" for name, path in {"demo": DEMO, **checkpoints}.items()]
    log = open(folder / "log", "w")
    server = subprocess.Popen([SERVER, *models, "--listen", "127.0.0.1:0", "--address-file", folder / "port", "--threads", "2"],
                              stdout=log, stderr=subprocess.STDOUT)
    port = folder / "port"
    deadline = time.monotonic() + 60
    while not (port.exists() and port.read_text().strip()):
        assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    yield port.read_text().strip()
    server.terminate()
    assert server.wait(timeout=30) == 0, (folder / "log").read_text()


@pytest.fixture()
def client(address):
    with phitap.Client(address, timeout=60) as client:
        yield client
