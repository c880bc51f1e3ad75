"""Trains tokenizer and decoder on the text of corpus.py, on one core.

usage: train.py OUT.pt [STEPS]     writes the parameters and the tokenizer's merges
"""
import math
import sys
import time

import torch
from torch.nn import functional

import corpus
import tokens
from decoder import CONTEXT, VOCABULARY, Decoder, Matrix, turned

BATCH, RATE, WARM, ROUNDED = 16, 2.5e-3, 100, 0.7  # ROUNDED: from this part of the steps on, products are those of four bits


def attend_of(model):
    cosine, sine = model.cosine, model.sine

    def attend(_, q, k, v):
        q, k = turned(q, cosine, sine), turned(k, cosine, sine)
        return functional.scaled_dot_product_attention(q, k, v.to(q.dtype), is_causal=True, enable_gqa=True)

    return attend


def rate_at(step, steps):
    return RATE * min(1, (step + 1) / WARM, (1 + math.cos(math.pi * step / steps)) / 2 + 0.02)


def loss_of(model, batch):
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(batch[:, :-1], attend_of(model))
    return functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())


def train(model, text, steps):
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}], betas=(0.9, 0.95))
    begin = time.process_time()
    for step in range(steps):
        if step == int(ROUNDED * steps):
            for module in model.modules():
                if isinstance(module, Matrix):
                    module.rounded = True
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, steps)
        at = torch.randint(len(text) - CONTEXT - 1, (BATCH, 1))
        loss = loss_of(model, text[at + torch.arange(CONTEXT + 1)])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step} of {steps}: loss {loss.item():.3f}, {time.process_time() - begin:.0f} s of the processor", flush=True)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    text = corpus.read().encode()
    merges = tokens.train(text, VOCABULARY)
    model = Decoder()
    encoded = torch.tensor(tokens.encode(text, merges))
    print(f"{len(text)} bytes, {len(encoded)} tokens, {sum(p.numel() for p in model.parameters())} parameters")
    train(model, encoded, int(sys.argv[2]) if len(sys.argv) > 2 else 1200)
    torch.save({"model": model.state_dict(), "merges": merges}, sys.argv[1])


if __name__ == "__main__":
    main()
