"""Says what was measured of a demo checkpoint: on the terminal and in README.md."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import dataclasses
import pathlib

import measure

_README = """# The demo model

A small Phi-3 that is worth looking into: {parameters:,} weights in bfloat16
({megabytes:.1f} MB), {layers} layers of {heads} heads (which share {key_value_heads} key/value
heads), hidden size {hidden}, {tokens} tokens. It is a plain Hugging Face folder:

```python
model = AutoModelForCausalLM.from_pretrained("deploy/demo-model", dtype="bfloat16")
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

`train.py` beside this file wrote every file here but the scripts: {steps} steps
from seed {seed}, {minutes:.0f} minutes on {threads} thread(s). `sentences.py` holds the tables and
patterns, `measure.py` the measures above. Again, or only the measures:

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


def write_readme(
    folder: pathlib.Path,
    checkpoint: measure.Checkpoint,
    findings: Findings,
    arguments: argparse.Namespace,
    minutes: float,
) -> None:
    config = checkpoint.model.config
    parameters = sum(p.numel() for p in checkpoint.model.parameters())
    accuracy = ["| pattern | right | new in the question |", "|---|---|---|"]
    for pattern, share in findings.accuracies.items():
        count, new = measure.ASKED[pattern]
        accuracy.append(f"| {pattern} | {100 * share:.1f}% of {count} | {new} |")
    text = _README.format(
        parameters=parameters,
        megabytes=parameters * 2 / 1e6,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        key_value_heads=config.num_key_value_heads,
        hidden=config.hidden_size,
        tokens=len(checkpoint.tokenizer),
        prompt=measure.PROMPT,
        accuracy="\n".join(accuracy),
        lens="\n".join(measure.lens_at_the_end(checkpoint, measure.PROMPT)),
        circuits="\n".join(
            f"- {role}: {', '.join(heads)}"
            for role, heads in findings.circuits.items()
        ),
        steps=arguments.steps,
        seed=arguments.seed,
        minutes=minutes,
        threads=arguments.threads,
    )
    (folder / "README.md").write_text(text)
