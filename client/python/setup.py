"""Generates the messages and stubs from the project's .proto files while building."""

import pathlib

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).parent.resolve()
PROTO = HERE.parent.parent / "proto"


class BuildWithProtos(build_py):
    """build_py, and phitap/v1/*_pb2.py beside what it copied (in the source tree for an editable install)."""

    def run(self):
        super().run()
        target = HERE if self.editable_mode else pathlib.Path(self.build_lib).resolve()
        generate(target)


def generate(target: pathlib.Path) -> None:
    import grpc_tools
    from grpc_tools import protoc

    protos = sorted(PROTO.glob("phitap/v1/*.proto"))
    if not protos:
        raise SystemExit(f"no .proto files under {PROTO}: install from a checkout, e.g. pip install ./client/python")
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={target}", f"--pyi_out={target}",
                 f"--grpc_python_out={target}", *map(str, protos)]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed: see above")
    (target / "phitap" / "v1" / "__init__.py").touch()


setup(cmdclass={"build_py": BuildWithProtos})
