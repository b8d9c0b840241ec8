"""Measures a saved demo checkpoint: accuracy by pattern, logit lens, heads."""
# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib

import torch
from sentences import Writer, split_marks
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPT = "When Mary and John went to the store, John gave a drink to"

# Pattern: how many held-out sentences of it are asked, and what is new in them.
ASKED = {
    "indirect object": (2000, "the pair of names"),
    "indirect object of three": (500, "the pair of giver and taker"),
    "induction": (500, "the list"),
    "colour": (500, "the pair of things"),
    "agreement": (500, "the pair of nouns"),
    "pronoun": (500, "the sentence (each name is known)"),
    "series": (500, "nothing: recalled from a table"),
    "fact": (500, "nothing: recalled from a table"),
    "chat": (500, "the pair of names or things, where there is one"),
}
TARGET_ACCURACY = 0.95  # of "indirect object"
_BATCH = 50
_SEED = 1


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A model and its tokenizer, as transformers loads them from a folder."""

    model: torch.nn.Module
    tokenizer: object

    @classmethod
    def load(cls, folder: pathlib.Path) -> "Checkpoint":
        # Eager attention is the one that can show its probabilities.
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="eager"
        )
        return cls(model.eval(), AutoTokenizer.from_pretrained(folder))

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def word(self, token_id: int) -> str:
        return self.tokenizer.decode([token_id])


@dataclasses.dataclass(frozen=True)
class Question:
    """A sentence cut before its last marked word, and that word."""

    ids: list[int]
    answer: int

    @classmethod
    def cut(cls, checkpoint: Checkpoint, marked: str) -> "Question":
        text, spans = split_marks(marked)
        begin, end = spans[-1]
        answer = checkpoint.ids(text[begin:end])
        return cls(checkpoint.ids(text[:begin]), answer[0])


def _questions(checkpoint: Checkpoint, pattern: str, count: int):
    writer = Writer(_SEED, "held_out")
    return [
        Question.cut(checkpoint, writer.sentence(pattern)) for _ in range(count)
    ]


def _batches(questions: list[Question]):
    """Right-padded ids; causal attention keeps the padding out of sight."""
    questions = sorted(questions, key=lambda q: len(q.ids))
    for start in range(0, len(questions), _BATCH):
        batch = questions[start : start + _BATCH]
        longest = max(len(q.ids) for q in batch)
        yield batch, torch.tensor(
            [q.ids + [0] * (longest - len(q.ids)) for q in batch]
        )


@torch.no_grad()
def accuracy(checkpoint: Checkpoint, pattern: str) -> float:
    """The share of held-out questions whose answer is the likeliest token."""
    right = 0
    questions = _questions(checkpoint, pattern, ASKED[pattern][0])
    for batch, ids in _batches(questions):
        logits = checkpoint.model(ids).logits
        for row, question in enumerate(batch):
            guess = logits[row, len(question.ids) - 1].argmax().item()
            right += guess == question.answer
    return right / len(questions)


@torch.no_grad()
def logit_lens(checkpoint: Checkpoint, prompt: str) -> torch.Tensor:
    """[layers, positions, vocabulary]: each layer's output through the head."""
    decoder = checkpoint.model.model
    outputs: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, out: outputs.append(out))
        for layer in decoder.layers
    ]
    checkpoint.model(torch.tensor([checkpoint.ids(prompt)]))
    for hook in hooks:
        hook.remove()
    hidden = torch.cat(outputs)
    logits = checkpoint.model.lm_head(decoder.norm(hidden))
    return logits.float().softmax(-1)


def lens_at_the_end(checkpoint: Checkpoint, prompt: str) -> list[str]:
    """A Markdown table: each layer's three likeliest next tokens."""
    rows = ["| layer | first | second | third |", "|---|---|---|---|"]
    at_the_end = logit_lens(checkpoint, prompt)[:, -1]
    for layer, probabilities in enumerate(at_the_end):
        best = probabilities.topk(3)
        cells = [
            f"`{checkpoint.word(token)}` {100 * probability:.0f}%"
            for probability, token in zip(best.values, best.indices.tolist())
        ]
        rows.append(f"| {layer} | " + " | ".join(cells) + " |")
    return rows


def lens_everywhere(checkpoint: Checkpoint, prompt: str) -> list[str]:
    """A line for each position: its token, each layer's guess of the next."""
    guesses = logit_lens(checkpoint, prompt).max(-1)
    lines = []
    for position, token in enumerate(checkpoint.ids(prompt)):
        cells = [f"{checkpoint.word(token)!r:>10} "]
        for chance, guess in zip(
            guesses.values[:, position], guesses.indices[:, position].tolist()
        ):
            cells.append(f"{checkpoint.word(guess):>10}{100 * chance:4.0f}%")
        lines.append("".join(cells))
    return lines


@torch.no_grad()
def heads(checkpoint: Checkpoint) -> dict[str, list[str]]:
    """The heads that look where the two known circuits look, strongest first.

    Name movers: from the last token of an indirect-object sentence at the name
    that is the answer. Induction: from the repeated word of a list at the word
    that followed it the first time. The figure is the mean attention.
    """
    looks = {
        "name movers": ("indirect object", _answer_position),
        "induction heads": ("induction", _induction_position),
    }
    found = {}
    for role, (pattern, target) in looks.items():
        total, count = 0.0, 0
        for batch, ids in _batches(_questions(checkpoint, pattern, 200)):
            seen = checkpoint.model(ids, output_attentions=True).attentions
            for row, question in enumerate(batch):
                last = len(question.ids) - 1
                key = target(checkpoint, question)
                looked = [layer[row, :, last, key] for layer in seen]
                total += torch.stack(looked).float()
                count += 1
        mean = total / count  # [layers, heads]
        best = mean.flatten().topk(4)
        found[role] = [
            f"layer {index // mean.shape[1]} head {index % mean.shape[1]} "
            f"({value:.2f})"
            for value, index in zip(best.values, best.indices.tolist())
        ]
    return found


def _answer_position(checkpoint: Checkpoint, question: Question) -> int:
    """Where the answer stands first: without its space if it opens the text."""
    answer = checkpoint.word(question.answer).strip()
    words = [checkpoint.word(token).strip() for token in question.ids]
    return words.index(answer)


def _induction_position(_: Checkpoint, question: Question) -> int:
    return question.ids.index(question.ids[-1]) + 1
