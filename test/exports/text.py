"""Transformers from configurations with random weights: encoders, decoders with a cache of keys and values, speech."""
import torch
import transformers
from torch import nn

from spec import model

VOCABULARY = 2000
SIZES = [{"batch": 1, "length": 64}, {"batch": 3, "length": 17}, {"batch": 2, "length": 1}]
TOKENS = {0: "batch", 1: "length"}


class Part(nn.Module):
    """A model of transformers whose inputs are in order, and of whose outputs some are taken."""

    def __init__(self, inner, names, outputs):
        super().__init__()
        self.inner, self.names, self.outputs = inner, names, outputs

    def forward(self, *values):
        made = self.inner(**dict(zip(self.names, values)), return_dict=True)
        return tuple(made[name] for name in self.outputs)


def tokens(batch, length):
    return torch.randint(0, VOCABULARY, (batch, length))


def masked_tokens(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, max(1, length - 3):] = 0
    return tokens(batch, length), mask


def encoder(name, names=("input_ids", "attention_mask"), **more):
    return model(name, masked_tokens, SIZES, list(names), ["hidden"], dynamic={n: TOKENS for n in names}, **more)


@encoder("bert")
def bert():
    config = transformers.BertConfig(vocab_size=VOCABULARY, num_hidden_layers=4)
    return Part(transformers.BertModel(config, add_pooling_layer=False), ("input_ids", "attention_mask"),
                ["last_hidden_state"])


@encoder("bert_eager")
def bert_eager():
    config = transformers.BertConfig(vocab_size=VOCABULARY, num_hidden_layers=4, attn_implementation="eager")
    return Part(transformers.BertModel(config, add_pooling_layer=False), ("input_ids", "attention_mask"),
                ["last_hidden_state"])


@encoder("distilbert")
def distilbert():
    config = transformers.DistilBertConfig(vocab_size=VOCABULARY, n_layers=3)
    return Part(transformers.DistilBertModel(config), ("input_ids", "attention_mask"), ["last_hidden_state"])


@encoder("t5_encoder")
def t5_encoder():
    config = transformers.T5Config(vocab_size=VOCABULARY, num_layers=4)
    return Part(transformers.T5EncoderModel(config), ("input_ids", "attention_mask"), ["last_hidden_state"])


@model("gpt2", masked_tokens, SIZES, ["input_ids", "attention_mask"], ["logits"],
       dynamic={"input_ids": TOKENS, "attention_mask": TOKENS})
def gpt2():
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_layer=4, use_cache=False)
    return Part(transformers.GPT2LMHeadModel(config), ("input_ids", "attention_mask"), ["logits"])


class Cached(nn.Module):
    """A decoder's step: tokens and the keys and values of the past in; logits and the new keys and values out."""

    def __init__(self, inner, layers):
        super().__init__()
        self.inner, self.layers = inner, layers

    def forward(self, input_ids, attention_mask, *past):
        pairs = [(past[2 * i], past[2 * i + 1]) for i in range(self.layers)]
        cache = transformers.DynamicCache(pairs)
        made = self.inner(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True,
                          return_dict=True)
        kept = made.past_key_values
        return (made.logits, *(t for layer in kept.layers for t in (layer.keys, layer.values)))


LAYERS, HEADS, SIZE = 2, 4, 64
PAST = [f"past_{i}_{kind}" for i in range(LAYERS) for kind in ("key", "value")]
PRESENT = [f"present_{i}_{kind}" for i in range(LAYERS) for kind in ("key", "value")]
STEPS = [{"batch": 1, "length": 1, "past": 63}, {"batch": 2, "length": 5, "past": 9}, {"batch": 1, "length": 7, "past": 2}]


def step(batch, length, past):
    mask = torch.ones(batch, length + past, dtype=torch.int64)
    mask[-1, :1] = 0
    return (tokens(batch, length), mask, *(torch.randn(batch, HEADS, past, SIZE) for _ in PAST))


CACHED = {"input_ids": TOKENS, "attention_mask": {0: "batch", 1: "total"},
          **{name: {0: "batch", 2: "past"} for name in PAST}}


@model("gpt2_cached", step, STEPS, ["input_ids", "attention_mask", *PAST], ["logits", *PRESENT], dynamic=CACHED)
def gpt2_cached():
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_layer=LAYERS, n_embd=2 * HEADS * SIZE // 2, n_head=HEADS)
    return Cached(transformers.GPT2LMHeadModel(config), LAYERS)


@model("llama_cached", step, STEPS, ["input_ids", "attention_mask", *PAST], ["logits", *PRESENT], dynamic=CACHED)
def llama_cached():
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, num_hidden_layers=LAYERS, hidden_size=2 * HEADS * SIZE,
                                      num_attention_heads=2 * HEADS, num_key_value_heads=HEADS, intermediate_size=1024,
                                      head_dim=SIZE)
    return Cached(transformers.LlamaForCausalLM(config), LAYERS)


@model("whisper_encoder", lambda batch: (torch.randn(batch, 80, 3000),), [{"batch": 1}, {"batch": 2}], ["mel"], ["hidden"],
       dynamic={"mel": {0: "batch"}})
def whisper_encoder():
    config = transformers.WhisperConfig(d_model=256, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=1024)
    return Part(transformers.models.whisper.modeling_whisper.WhisperEncoder(config), ("input_features",),
                ["last_hidden_state"])
