"""Clients of the last release still understand the server, and it them: nothing of proto/baseline.binpb is gone or means something else."""

# SPDX-License-Identifier: Apache-2.0

import pathlib
import shutil
import subprocess
import sys

import pytest

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
BASELINE = PROTO / "baseline.binpb"
BUF = pathlib.Path(sys.executable).parent / "buf"


def buf(*arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUF, *arguments], capture_output=True, text=True, check=False)


def breaks(protos: pathlib.Path) -> str:
    """What of the baseline the protos break, a line each; empty for nothing."""
    found = buf("breaking", protos, "--against", BASELINE)
    assert found.returncode in (0, 100), found.stderr  # 100: it has found something
    return found.stdout


def test_the_protocol_is_spelled_and_documented_as_buf_yaml_asks():
    found = buf("lint", PROTO)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_protocol_still_has_all_of_the_last_release():
    assert breaks(PROTO) == "", "see proto/renew-baseline.sh for what a release does about it"


@pytest.fixture()
def copy(tmp_path) -> pathlib.Path:
    shutil.copytree(PROTO, tmp_path / "proto")
    return tmp_path / "proto"


def edit(protos: pathlib.Path, name: str, old: str, new: str) -> None:
    path = protos / "phitap" / "v1" / f"{name}.proto"
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} in {path}"
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(("name", "old", "new", "said"), [
    ("tensor", "int64 offset_bytes = 2;", "int64 offset_bytes = 5;", 'field "2" with name "offset_bytes"'),
    ("tensor", "int64 offset_bytes = 2;", "int32 offset_bytes = 2;", "changed type"),
    ("tensor", "int64 offset_bytes = 2;", "int64 offset = 2;", 'changed name from "offset_bytes" to "offset"'),
    ("tensor", "optional fixed64 xxh3 = 4;", "fixed64 xxh3 = 4;", "cardinality"),
    ("tensor", "DATA_TYPE_BOOL = 6;", "DATA_TYPE_BOOL = 7;", 'enum value "6"'),
    ("trace", "string text = 1;", "bytes text = 1;", "changed type"),
    ("trace", "repeated Run runs = 2;", "Run runs = 2;", "cardinality"),
    ("activation_service", "rpc ListModels(ListModelsRequest)", "rpc GetModels(ListModelsRequest)", 'RPC "ListModels"'),
    ("admin_service", "  double progress = 5;\n", "", 'field "5" with name "progress"'),
    ("admin_service", "rpc DrainServer(DrainServerRequest)", "rpc Drain(DrainServerRequest)", 'RPC "DrainServer"'),
    ("activation_service", "returns (stream TraceResponse)", "returns (TraceResponse)", "from server streaming to server unary"),
])
def test_a_change_that_clients_would_not_survive_is_seen(copy, name, old, new, said):
    edit(copy, name, old, new)
    assert said in breaks(copy)


def test_what_is_only_added_breaks_nothing(copy):
    edit(copy, "tensor", "optional fixed64 xxh3 = 4;", "optional fixed64 xxh3 = 4;\n  // Another hash.\n  string digest = 5;")
    assert breaks(copy) == ""
