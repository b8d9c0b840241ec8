#!/usr/bin/env python3
"""Trains phitap's demo checkpoint and writes it as a Hugging Face folder.

The checkpoint is a small Phi-3 (6 layers, 3 million weights, bfloat16) with a
byte-level BPE tokenizer of its own. It learns the sentences of sentences.py:
who gets the drink, capitals, colours, series, repeated lists, short chats.

Examples:
  train.py                       train and overwrite the checkpoint beside this
                                 file, measure it and write its README.md
  train.py --out /tmp/try --steps 300
                                 a quick look, somewhere else
  train.py --check               measure the saved files; exit 1 if fewer than
                                 95% of held-out pairs of names are right

It needs torch, transformers and tokenizers, no network and no GPU. The same
seed on the same CPU with the same torch gives the same bits.
"""
# SPDX-License-Identifier: Apache-2.0

import argparse
import math
import pathlib
import sys
import time

import measure
import report
import torch
from sentences import Writer, split_marks
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional
from transformers import Phi3Config, Phi3ForCausalLM, PreTrainedTokenizerFast

END_OF_TEXT, END_OF_TURN = "<|endoftext|>", "<|end|>"
SPECIALS = [END_OF_TEXT, "<|assistant|>", "<|system|>", END_OF_TURN, "<|user|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role ' + message['role']) }}"
    "{% elif message['role'] != 'system' or message['content'] %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}"
    "{% endif %}{% endfor %}"
    "{{ '<|assistant|>\n' if add_generation_prompt else eos_token }}"
)
LONGEST_PROMPT = 512  # tokens
TOKENS_A_STEP = 1536
TEXTS_A_POOL = 2048
PEAK_RATES = {"matrices": 0.02, "rest": 0.003}  # of learning
WARMUP_STEPS = 100
UNMARKED_WEIGHT = 0.03  # of a word that nothing before it tells, in the loss


def make_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE in which every word of the sentences is one token."""
    writer = Writer(seed, "train")
    texts = [split_marks(writer.text())[0] for _ in range(20_000)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=4096,  # never reached: it stops when the words are whole
            special_tokens=SPECIALS,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        unk_token=END_OF_TEXT,
        additional_special_tokens=SPECIALS[1:],
        padding_side="left",
        model_max_length=LONGEST_PROMPT,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> Phi3ForCausalLM:
    end = tokenizer.eos_token_id
    config = Phi3Config(
        vocab_size=math.ceil(len(tokenizer) / 16) * 16,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=6,
        num_key_value_heads=3,
        max_position_embeddings=LONGEST_PROMPT,
        original_max_position_embeddings=LONGEST_PROMPT,
        sliding_window=None,
        initializer_range=0.04,
        tie_word_embeddings=False,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )
    # On sentences this short SDPA's backward takes longer than all the rest.
    config._attn_implementation = "eager"
    model = Phi3ForCausalLM(config)
    model.generation_config.eos_token_id = [
        end,
        tokenizer.convert_tokens_to_ids(END_OF_TURN),
    ]
    return model


def batches(tokenizer: PreTrainedTokenizerFast, seed: int):
    """Endless (ids, weights), [texts, tokens] each, right-padded with weight 0.

    Texts of like length share a batch, so that little of it is padding.
    """
    writer = Writer(seed, "train")
    order = torch.Generator().manual_seed(seed)
    while True:
        marked = [split_marks(writer.text()) for _ in range(TEXTS_A_POOL)]
        texts = [text for text, _ in marked]
        encoded = tokenizer.backend_tokenizer.encode_batch(texts)
        rows = []
        for (_, spans), encoding in zip(marked, encoded):
            weights = [
                1.0 if any(b <= at < e for b, e in spans) else UNMARKED_WEIGHT
                for at, _ in encoding.offsets
            ]
            rows.append((encoding.ids, weights))
        rows.sort(key=lambda row: len(row[0]))
        cuts, start = [], 0
        for end in range(1, len(rows) + 1):
            full = (end - start + 1) * len(rows[min(end, len(rows) - 1)][0])
            if full > TOKENS_A_STEP or end == len(rows):
                cuts.append(rows[start:end])
                start = end
        for index in torch.randperm(len(cuts), generator=order).tolist():
            yield pad(cuts[index], tokenizer.pad_token_id)


def pad(rows, pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(ids) for ids, _ in rows)
    return (
        torch.tensor([i + [pad_id] * (longest - len(i)) for i, _ in rows]),
        torch.tensor([w + [0.0] * (longest - len(w)) for _, w in rows]),
    )


def losses_of(
    model, ids: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean cross-entropy of the next token: weighted, and of marked words."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(ids, use_cache=False).logits
    each = functional.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(),
        ids[:, 1:].flatten(),
        reduction="none",
    )
    weights = weights[:, 1:].flatten()
    marked = each[weights == 1].detach().mean()
    return (each * weights).sum() / weights.sum(), marked


def make_optimizers(model) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for all else.

    With AdamW alone the circuits form too, in several times as many steps.
    """
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    taken = set(map(id, matrices))
    rest = [p for p in model.parameters() if id(p) not in taken]
    return [
        torch.optim.Muon(
            matrices, lr=PEAK_RATES["matrices"], weight_decay=0.1
        ),
        torch.optim.AdamW(
            rest, lr=PEAK_RATES["rest"], betas=(0.9, 0.98), weight_decay=0.1
        ),
    ]


def schedule(step: int, steps: int) -> float:
    """The learning rate's factor: linear warm-up, a half cosine to nothing."""
    warm = min(1.0, (step + 1) / WARMUP_STEPS)
    return warm * 0.5 * (1 + math.cos(math.pi * step / steps))


def train(model, tokenizer, steps: int, seed: int) -> None:
    optimizers = make_optimizers(model)
    rates = [
        torch.optim.lr_scheduler.LambdaLR(o, lambda step: schedule(step, steps))
        for o in optimizers
    ]
    source = batches(tokenizer, seed)
    start, recent = time.monotonic(), 0.0
    for step in range(steps):
        loss, marked = losses_of(model, *next(source))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for part in (*optimizers, *rates):
            part.step()
        model.zero_grad()
        recent += marked.item()
        if (step + 1) % 50 == 0:
            seconds = time.monotonic() - start
            print(
                f"step {step + 1}/{steps}  "
                f"loss of marked words {recent / 50:.3f}  "
                f"{seconds:.0f} s, "
                f"{seconds * (steps / (step + 1) - 1):.0f} s left",
                flush=True,
            )
            recent = 0.0


def save(model, tokenizer, folder: pathlib.Path) -> None:
    model.to(torch.bfloat16).save_pretrained(folder)
    # The template stays in tokenizer_config.json, where every reader looks.
    tokenizer.save_pretrained(folder, save_jinja_files=False)
    (folder / "model.safetensors").chmod(0o644)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument(
        "--out", type=pathlib.Path, default=here, help="checkpoint folder"
    )
    parser.add_argument(
        "--steps", type=int, default=2400, help="training steps"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument(
        "--check",
        action="store_true",
        help="measure the saved files, train nothing",
    )
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    if not arguments.check:
        start = time.process_time()
        torch.manual_seed(arguments.seed)
        tokenizer = make_tokenizer(arguments.seed)
        model = make_model(tokenizer)
        train(model, tokenizer, arguments.steps, arguments.seed)
        save(model, tokenizer, arguments.out)
        minutes = (time.process_time() - start) / 60
    checkpoint = measure.Checkpoint.load(arguments.out)
    findings = report.Findings.measure(checkpoint)
    report.show(checkpoint, findings)
    if not arguments.check:
        report.write_readme(checkpoint, findings, arguments, minutes)
    return 0 if findings.passed() else 1


if __name__ == "__main__":
    sys.exit(main())
