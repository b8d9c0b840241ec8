"""The load test's and the golden tests' ways to ask and to serve serve here too."""

import os
import pathlib
import sys

# Where cores are shared, threads that wait for the others must let them run.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bench")]
