"""Settings of all tests here, made before anything imports torch."""

import os

# Where cores are shared, threads that wait for the others must let them run.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
