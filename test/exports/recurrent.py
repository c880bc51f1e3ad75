"""Language models of recurrent layers, with any batch and length, and the states of a first step."""
import torch
from torch import nn

from spec import model, sized

VOCABULARY, WIDTH, NARROW = sized(1000, 30), sized(192, 12), sized(128, 10)
SIZES = [{"batch": 1, "length": sized(48, 8)}, {"batch": 4, "length": 7}, {"batch": 2, "length": 1}]
DYNAMIC = {"tokens": {0: "batch", 1: "length"}}


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, NARROW)
        self.layers = kind(NARROW, WIDTH, num_layers=2, batch_first=True, **options)
        self.head = nn.Linear(WIDTH * (1 + self.layers.bidirectional), VOCABULARY)

    def forward(self, tokens, *state):
        made, last = self.layers(self.embed(tokens), *state)
        return (self.head(made), *(last if isinstance(last, tuple) else (last,)))


def tokens(batch, length):
    return (torch.randint(0, VOCABULARY, (batch, length)),)


def tokens_and_state(batch, length):
    return (*tokens(batch, length), torch.randn(2, batch, WIDTH))


@model("lstm_lm", tokens, SIZES, ["tokens"], ["logits", "h", "c"], dynamic=DYNAMIC)
def lstm_lm():
    return Recurrent(nn.LSTM)


@model("lstm_both_ways", tokens, SIZES, ["tokens"], ["logits", "h", "c"], dynamic=DYNAMIC)
def lstm_both_ways():
    return Recurrent(nn.LSTM, bidirectional=True)


@model("gru_lm", tokens_and_state, SIZES, ["tokens", "state"], ["logits", "h"],
       dynamic={**DYNAMIC, "state": {1: "batch"}})
def gru_lm():
    return Recurrent(nn.GRU)


# torch.export takes the length of an nn.RNN for a constant.
@model("rnn_lm", tokens, SIZES, ["tokens"], ["logits", "h"], dynamic=DYNAMIC, exporters=("legacy",))
def rnn_lm():
    return Recurrent(nn.RNN)
