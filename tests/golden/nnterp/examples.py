"""nnterp's documented examples, as settings that both sides share."""

import numpy as np

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPT = "When Mary and John went to the store, Mary gave a drink to"
TARGET = "List: book ball ring book ball ring book"
WORDS = ["Paul", "Anna"]
STEERED, FACTOR, STEERED_POSITIONS = [1, 3], 1.5, [2, 9, -1]
SKIPPED = (1, 3)
EDITED_LAYER, EDITED_HEAD = 2, 1


def steering_vector() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(192).astype(np.float32)
