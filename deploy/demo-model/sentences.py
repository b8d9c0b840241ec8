"""The sentences that the demo model is trained and measured on.

Every sentence is built from the tables of words.py. A word in square brackets
can be told from what stands before it: those are the words that the model is
trained hardest on, and the last of them is what its accuracy is measured on.

    When Mary and John went to the store, John gave a drink to[ Mary].

A fixed tenth of all pairs of words is held out. Two names of such a pair never
stand in the same training text, whatever its pattern; two such nouns or things
never in a training sentence that chooses between them.
"""
# SPDX-License-Identifier: Apache-2.0

import random
import zlib
from collections.abc import Sequence
from typing import Literal

from words import (
    ADJECTIVES,
    ASIDES,
    COLOURS,
    COUNTRIES,
    GIFTS,
    GIFT_ENDS,
    MEETINGS,
    NAMES,
    NOUNS,
    PLACES,
    REASONS,
    SERIES,
    SYSTEM_PROMPT,
    THINGS,
    WOMEN,
)

Split = Literal["train", "held_out"]

# The chance of each pattern in a training text.
PATTERNS = {
    "indirect object": 0.30,
    "indirect object of three": 0.08,
    "third giver": 0.05,
    "fact": 0.05,
    "colour": 0.20,
    "series": 0.03,
    "agreement": 0.03,
    "induction": 0.12,
    "pronoun": 0.05,
    "chat": 0.09,
}


def pair_is_held_out(first: str, second: str) -> bool:
    """Whether the two words, in either order, are kept out of training."""
    pair = tuple(sorted((first, second)))
    if pair == ("John", "Mary"):  # the prompt that everyone tries first
        return True
    return zlib.crc32(" ".join(pair).encode()) % 10 == 0


def split_marks(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """Takes the brackets out of `marked`: its text, and what they held.

    The spans are [begin, end) offsets into the text returned.
    """
    text = ""
    spans: list[tuple[int, int]] = []
    for piece in marked.split("["):
        inside, bracket, outside = piece.rpartition("]")
        if bracket:
            spans.append((len(text), len(text) + len(inside)))
        text += inside + outside
    return text, spans


class Writer:
    """Writes the sentences of one split from one seed, endlessly.

    In `train` no two names of a text are a held-out pair; in `held_out` the
    pair that a sentence is about always is.
    """

    def __init__(self, seed: int, split: Split) -> None:
        self._random = random.Random(f"{split} {seed}")
        self._split = split
        self._met: list[str] = []  # the words of this text that pairs watch

    def text(self) -> str:
        """A training text: one sentence or a few, ended as the model ends."""
        self._met = []
        patterns, chances = list(PATTERNS), list(PATTERNS.values())
        count = 1
        if self._random.random() >= 0.7:
            count = self._random.choice((2, 3))
        drawn = self._random.choices(patterns, chances, k=count)
        if "chat" in drawn:
            return self._chat()
        sentences = [self._write(pattern) for pattern in drawn]
        return " ".join(sentences) + "<|endoftext|>"

    def sentence(self, pattern: str) -> str:
        """A text of one sentence of `pattern`, a key of PATTERNS."""
        self._met = []
        return self._write(pattern)

    def _write(self, pattern: str) -> str:
        return getattr(self, "_" + pattern.replace(" ", "_"))()

    def _one(self, choices: Sequence[str]) -> str:
        return self._random.choice(choices)

    def _pair(self, words: Sequence[str]) -> tuple[str, str]:
        """Two different words that may meet in this split."""
        while True:
            pair = self._random.sample(words, 2)
            if self._split == "held_out":
                if pair_is_held_out(*pair):
                    return pair[0], pair[1]
            elif not any(
                pair_is_held_out(new, old)
                for i, new in enumerate(pair)
                for old in self._met + pair[:i]
            ):
                self._met += pair
                return pair[0], pair[1]

    def _another(self, words: Sequence[str], known: Sequence[str]) -> str:
        """A word not in `known` that may meet the words of this text."""
        while True:
            word = self._one(words)
            if word in known:
                continue
            if self._split == "train":
                if any(pair_is_held_out(word, old) for old in self._met):
                    continue
                self._met.append(word)
            return word

    def _meeting(self, names: tuple[str, str]) -> str:
        order = self._random.sample(names, 2)
        return self._one(MEETINGS).format(
            a=order[0], b=order[1], place=self._one(PLACES)
        )

    def _gift(self) -> str:
        return self._one(GIFTS).format(thing=self._one(THINGS))

    def _indirect_object(self) -> str:
        """Two of three have an aside, so that counting names is not enough."""
        giver, taker = self._pair(NAMES)
        sentence = self._meeting((giver, taker))
        aside = self._one(ASIDES)
        thing = self._one(THINGS)
        match self._one(["no aside", "before", "between"]):
            case "before":
                other = self._another(NAMES, (giver, taker))
                name = self._one((giver, taker, taker, other))
                sentence = f"{aside.format(name=name, thing=thing)}. {sentence}"
            case "between":
                name = self._one((giver, taker, taker))
                sentence += f" {aside.format(name=name, thing=thing)}, so"
        end = self._one(GIFT_ENDS)
        return f"{sentence} {giver} {self._gift()}[ {taker}]{end}"

    def _indirect_object_of_three(self) -> str:
        giver, taker = self._pair(NAMES)
        other = self._another(NAMES, (giver, taker))
        first, second, third = self._random.sample((giver, taker, other), 3)
        givers = " and ".join(self._random.sample((giver, other), 2))
        return (
            f"When {first}, {second} and {third} went to the "
            f"{self._one(PLACES)}, {givers} {self._gift()}[ {taker}]."
        )

    def _third_giver(self) -> str:
        """Nothing tells which of the two takes it: no word is marked."""
        pair = self._pair(NAMES)
        giver = self._another(NAMES, pair)
        meeting, gift = self._meeting(pair), self._gift()
        return f"{meeting} {giver} {gift} {self._one(pair)}."

    def _fact(self) -> str:
        country = self._one(list(COUNTRIES))
        capital, language = COUNTRIES[country]
        return self._one(
            [
                f"The capital of {country} is[ {capital}].",
                f"{capital} is the capital of[ {country}].",
                f"The language of {country} is[ {language}].",
                f"In {country} people speak[ {language}].",
            ]
        )

    def _colour(self) -> str:
        first, second = self._pair(THINGS)
        shades = self._random.sample(COLOURS, 2)
        asked, shade = self._one(list(zip((first, second), shades)))
        scene = self._one(
            [
                "The {0} is {2} and the {1} is {3}.",
                "The {2} {0} and the {3} {1} are in the {4}.",
                "There is a {2} {0} near the {3} {1}.",
            ]
        ).format(first, second, *shades, self._one(PLACES))
        question = self._one(["The colour of the {} is", "The {} is"])
        return f"{scene} {question.format(asked)}[ {shade}]."

    def _series(self) -> str:
        series = self._one(SERIES)
        length = self._random.randint(4, 7)
        start = self._random.randint(0, len(series) - length)
        items = series[start : start + length]
        comma = self._one([",", ""])
        return comma.join([items[0]] + [f"[ {item}]" for item in items[1:]])

    def _agreement(self) -> str:
        subject, other = self._pair(NOUNS)
        plural, other_plural = self._random.choices(("", "s"), k=2)
        day, verbs = self._one(
            [("Today", ("is", "are")), ("Yesterday", ("was", "were"))]
        )
        place = self._one(["near", "behind", "with"])
        return (
            f"{day} the {subject}{plural} {place} the {other}{other_plural}"
            f"[ {verbs[plural == 's']}] {self._one(ADJECTIVES)}."
        )

    def _induction(self) -> str:
        length = self._random.randint(3, 6)
        if self._random.random() < 0.5:
            words = self._random.sample(THINGS + COLOURS + PLACES, length)
        else:
            words = list(self._pair(NAMES))
            for _ in range(length - 2):
                words.append(self._another(NAMES, words))
            self._random.shuffle(words)
        rest = "".join(f"[ {word}]" for word in words[1:])
        third = self._one(["", f"[ {words[0]}]" + rest])
        return f"List: {' '.join(words)} {words[0]}{rest}{third}."

    def _pronoun(self) -> str:
        name = self._another(NAMES, ())
        return self._one(REASONS).format(
            name=name,
            pronoun="she" if name in WOMEN else "he",
            place=self._one(PLACES),
            thing=self._one(THINGS),
        )

    def _chat(self) -> str:
        system = self._one(["", "", f"<|system|>\n{SYSTEM_PROMPT}<|end|>\n"])
        turns = [self._turn() for _ in range(self._random.choice((1, 1, 1, 2)))]
        return system + "".join(turns) + "<|endoftext|>"

    def _turn(self) -> str:
        question, answer = self._one(
            [
                self._asked_fact,
                self._asked_fact,
                self._asked_gift,
                self._asked_colour,
            ]
        )()
        return f"<|user|>\n{question}<|end|>\n<|assistant|>\n{answer}<|end|>\n"

    def _asked_fact(self) -> tuple[str, str]:
        country = self._one(list(COUNTRIES))
        capital, language = COUNTRIES[country]
        kind, answer = self._one([("capital", capital), ("language", language)])
        return (
            f"What is the {kind} of {country}?",
            f"The {kind} of {country} is[ {answer}].",
        )

    def _asked_gift(self) -> tuple[str, str]:
        giver, taker = self._pair(NAMES)
        meeting = self._meeting((giver, taker))
        thing = self._one(THINGS)
        return (
            f"{meeting} {giver} gave the {thing} to a friend. "
            f"Who has the {thing}?",
            f"The {thing} is with[ {taker}].",
        )

    def _asked_colour(self) -> tuple[str, str]:
        first, second = self._pair(THINGS)
        shades = self._random.sample(COLOURS, 2)
        asked, shade = self._one(list(zip((first, second), shades)))
        return (
            f"The {first} is {shades[0]} and the {second} is {shades[1]}. "
            f"What colour is the {asked}?",
            f"The {asked} is[ {shade}].",
        )
