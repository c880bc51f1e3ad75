"""Transformers from configurations with random weights: encoders, decoders with a cache of keys and values, speech."""
import torch
import transformers
from torch import nn

from spec import model, sized

VOCABULARY = sized(2000, 50)
WIDE, INNER, FOUR = sized(768, 32), sized(3072, 48), sized(12, 2)
SIZES = [{"batch": 1, "length": sized(64, 9)}, {"batch": 3, "length": sized(17, 5)}, {"batch": 2, "length": 1}]
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
    config = transformers.BertConfig(vocab_size=VOCABULARY, num_hidden_layers=sized(4, 1), hidden_size=WIDE, intermediate_size=INNER,
                                     num_attention_heads=FOUR, max_position_embeddings=sized(512, 64))
    return Part(transformers.BertModel(config, add_pooling_layer=False), ("input_ids", "attention_mask"),
                ["last_hidden_state"])


@encoder("bert_eager")
def bert_eager():
    config = transformers.BertConfig(vocab_size=VOCABULARY, num_hidden_layers=sized(4, 1), hidden_size=WIDE, intermediate_size=INNER,
                                     num_attention_heads=FOUR, max_position_embeddings=sized(512, 64), attn_implementation="eager")
    return Part(transformers.BertModel(config, add_pooling_layer=False), ("input_ids", "attention_mask"),
                ["last_hidden_state"])


@encoder("distilbert")
def distilbert():
    config = transformers.DistilBertConfig(vocab_size=VOCABULARY, n_layers=sized(3, 1), dim=WIDE, hidden_dim=INNER, n_heads=FOUR,
                                           max_position_embeddings=sized(512, 64))
    return Part(transformers.DistilBertModel(config), ("input_ids", "attention_mask"), ["last_hidden_state"])


@encoder("t5_encoder")
def t5_encoder():
    config = transformers.T5Config(vocab_size=VOCABULARY, num_layers=sized(4, 1), d_model=sized(512, 32), d_kv=sized(64, 16),
                                   d_ff=sized(2048, 48), num_heads=sized(8, 2))
    return Part(transformers.T5EncoderModel(config), ("input_ids", "attention_mask"), ["last_hidden_state"])


@model("gpt2", masked_tokens, SIZES, ["input_ids", "attention_mask"], ["logits"],
       dynamic={"input_ids": TOKENS, "attention_mask": TOKENS})
def gpt2():
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_layer=sized(4, 1), n_embd=WIDE, n_head=FOUR, use_cache=False,
                                     n_positions=sized(1024, 64))
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


LAYERS, HEADS, SIZE = sized(2, 1), sized(4, 2), sized(64, 16)
PAST = [f"past_{i}_{kind}" for i in range(LAYERS) for kind in ("key", "value")]
PRESENT = [f"present_{i}_{kind}" for i in range(LAYERS) for kind in ("key", "value")]
STEPS = [{"batch": 1, "length": 1, "past": sized(63, 11)}, {"batch": 2, "length": 5, "past": 9}, {"batch": 1, "length": 7, "past": 2}]


def step(batch, length, past):
    mask = torch.ones(batch, length + past, dtype=torch.int64)
    mask[-1, :1] = 0
    return (tokens(batch, length), mask, *(torch.randn(batch, HEADS, past, SIZE) for _ in PAST))


CACHED = {"input_ids": TOKENS, "attention_mask": {0: "batch", 1: "total"},
          **{name: {0: "batch", 2: "past"} for name in PAST}}


@model("gpt2_cached", step, STEPS, ["input_ids", "attention_mask", *PAST], ["logits", *PRESENT], dynamic=CACHED)
def gpt2_cached():
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_layer=LAYERS, n_embd=HEADS * SIZE, n_head=HEADS,
                                     n_positions=sized(1024, 96))
    return Cached(transformers.GPT2LMHeadModel(config), LAYERS)


@model("llama_cached", step, STEPS, ["input_ids", "attention_mask", *PAST], ["logits", *PRESENT], dynamic=CACHED)
def llama_cached():
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, num_hidden_layers=LAYERS, hidden_size=2 * HEADS * SIZE,
                                      num_attention_heads=2 * HEADS, num_key_value_heads=HEADS, intermediate_size=sized(1024, 64),
                                      head_dim=SIZE)
    return Cached(transformers.LlamaForCausalLM(config), LAYERS)


@model("whisper_encoder", lambda batch: (torch.randn(batch, sized(80, 8), sized(3000, 24)),), [{"batch": 1}, {"batch": 2}], ["mel"], ["hidden"],
       dynamic={"mel": {0: "batch"}})
def whisper_encoder():
    config = transformers.WhisperConfig(d_model=sized(256, 32), encoder_layers=sized(2, 1), encoder_attention_heads=sized(4, 2),
                                        encoder_ffn_dim=sized(1024, 48), num_mel_bins=sized(80, 8),
                                        max_source_positions=sized(1500, 12))
    return Part(transformers.models.whisper.modeling_whisper.WhisperEncoder(config), ("input_features",),
                ["last_hidden_state"])
