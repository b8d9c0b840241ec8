"""Each fuzz target for some seconds: nothing that comes from a file or the network breaks what reads it."""

# SPDX-License-Identifier: Apache-2.0

import os

import pytest

from fuzz import TARGETS, Outcome, fuzz_all

SECONDS = float(os.environ.get("PHITAP_FUZZ_SECONDS", "8"))
#: Fewer would mean that next to nothing was tried.
LEAST_INPUTS = 100


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {outcome.target: outcome for outcome in fuzz_all(TARGETS, SECONDS, os.cpu_count() or 1)}


@pytest.mark.parametrize("name", [target.name for target in TARGETS])
def test_no_input_breaks(outcomes, name):
    outcome = outcomes[name]
    assert not outcome.broke, outcome.broke
    assert outcome.inputs >= LEAST_INPUTS
