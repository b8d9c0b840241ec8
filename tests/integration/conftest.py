"""The golden tests' ways to serve, draw and compare runs serve here too."""

import os
import pathlib
import sys

# Where cores are shared, threads that wait for the others must let them run.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
