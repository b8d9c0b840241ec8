"""Tells what was measured of a demo checkpoint, here and in its README.md."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import dataclasses

import measure

_README = """# The demo model

A small Phi-3 that is worth looking into, as a plain Hugging Face folder.
{size}

```python
AutoModelForCausalLM.from_pretrained("deploy/demo-model", dtype="bfloat16")
```

It knows eighty names, each one token, and a few patterns, among them the
indirect object:

> {prompt} → ` Mary`

It is not a language model: of sentences unlike those of `sentences.py` it
knows nothing.

## What it gets right

The likeliest next token, in bfloat16, from the saved files. One pair of names
in ten is held out: the two never stand in the same training text, in any
pattern. Mary and John are such a pair.

{accuracy}

## What there is to see

The logit lens at the last token of the prompt above: each layer's output
through the final norm and the head.

{lens}

Heads that look where the known circuits look, with their mean attention:

{circuits}

## How it was made

`train.py` beside this file wrote every file here but the scripts.
{making}
`words.py` and `sentences.py` hold the words and patterns, `measure.py` the
measures above. Again, or only the measures:

```
deploy/demo-model/train.py
deploy/demo-model/train.py --check
```
"""


@dataclasses.dataclass(frozen=True)
class Findings:
    accuracies: dict[str, float]  # by pattern
    circuits: dict[str, list[str]]  # by role, heads

    @classmethod
    def measure(cls, checkpoint: measure.Checkpoint) -> "Findings":
        return cls(
            {p: measure.accuracy(checkpoint, p) for p in measure.ASKED},
            measure.heads(checkpoint),
        )

    def passed(self) -> bool:
        return self.accuracies["indirect object"] >= measure.TARGET_ACCURACY


def show(checkpoint: measure.Checkpoint, findings: Findings) -> None:
    for pattern, share in findings.accuracies.items():
        count, _ = measure.ASKED[pattern]
        print(f"{100 * share:6.1f}% of {count} held-out questions: {pattern}")
    for role, heads in findings.circuits.items():
        print(f"{role}: " + ", ".join(heads))
    print("logit lens, a column for each layer:")
    print("\n".join(measure.lens_everywhere(checkpoint, measure.PROMPT)))


def _size(checkpoint: measure.Checkpoint) -> str:
    config = checkpoint.model.config
    weights = sum(p.numel() for p in checkpoint.model.parameters())
    return (
        f"{weights:,} weights ({weights * 2 / 1e6:.1f} MB in bfloat16), "
        f"{config.num_hidden_layers} layers,\nhidden size "
        f"{config.hidden_size}, {config.num_attention_heads} heads on "
        f"{config.num_key_value_heads} key/value heads, "
        f"{len(checkpoint.tokenizer)} tokens."
    )


def write_readme(
    checkpoint: measure.Checkpoint,
    findings: Findings,
    arguments: argparse.Namespace,
    minutes: float,
) -> None:
    accuracy = ["| pattern | right | new in the question |", "|---|---|---|"]
    for pattern, share in findings.accuracies.items():
        count, new = measure.ASKED[pattern]
        right = f"{100 * share:.1f}% of {count}"
        accuracy.append(f"| {pattern} | {right} | {new} |")
    text = _README.format(
        size=_size(checkpoint),
        prompt=measure.PROMPT,
        accuracy="\n".join(accuracy),
        lens="\n".join(measure.lens_at_the_end(checkpoint, measure.PROMPT)),
        circuits="\n".join(
            f"- {role}: {', '.join(heads)}"
            for role, heads in findings.circuits.items()
        ),
        making=(
            f"{arguments.steps} steps from seed {arguments.seed} took "
            f"{minutes:.0f} minutes of CPU time."
        ),
    )
    (arguments.out / "README.md").write_text(text)
