"""The networks that the tools change: transformers of two layers with random weights, and a convolutional one.

RECIPES says what becomes of each (see steps.py); LANGUAGE_MODELS are configurations for the builder of generative models.
"""
import os
import sys

import torch
import transformers
from torch import nn

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "exports"))
from spec import EXPORTS, model, sized  # noqa: E402
from text import Cached, Part, masked_tokens  # noqa: E402

VOCABULARY, WIDE, INNER, HEADS, LAYERS = sized(512, 64), sized(128, 32), sized(256, 64), sized(4, 2), sized(2, 1)
SIZES = [{"batch": 2, "length": 16}, {"batch": 1, "length": 7}]
TOKENS, IMAGES = {0: "batch", 1: "length"}, {"pixels": {0: "batch"}}
QUANTISED = ["dynamic", "static_qdq", "static_ops", "static_qdq+extended", "dynamic+extended"]
FUSED = ["fuse0", "fuse1", "fuse2", "fuse99", "heads", "fused_half", "fuse1+dynamic", "fuse1+half", "fuse1+int4"]
SAVED = ["basic", "extended", "all"]
KINDS, RECIPES = {}, {}


def network(name, kind, recipes, inputs, sizes, input_names, output_names, dynamic):
    """Marks the function that builds the module; kind: in the words of the optimiser."""
    KINDS[name], RECIPES[name] = kind, recipes
    return model("tools_" + name, inputs, sizes, input_names, output_names, dynamic=dynamic)


def spec_of(name):
    return EXPORTS["tools_" + name]


def tokens(batch, length):
    return torch.randint(2, VOCABULARY - 2, (batch, length), dtype=torch.int64)


def sentences(batch, length):
    return (*masked_tokens(batch, length), torch.randint(0, 2, (batch, length)))


def pixels(batch):
    return (torch.randn(batch, 3, 32, 32),)


def of_tokens(*names):
    return {name: TOKENS for name in names}


BERT = {"vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "hidden_size": WIDE, "intermediate_size": INNER,
        "num_attention_heads": HEADS, "max_position_embeddings": 64}


def bert_of(**more):
    names = ("input_ids", "attention_mask", "token_type_ids")
    return Part(transformers.BertModel(transformers.BertConfig(**BERT, **more)), names, ["last_hidden_state", "pooler_output"])


SENTENCE = ["input_ids", "attention_mask", "token_type_ids"]


@network("bert", "bert", [*FUSED, *SAVED, *QUANTISED, "plain", "approximate", "dynamic_u8", "dynamic_channels", "fuse1+static_qdq",
                          "half", "half_all", "int4", "int4_pairs", "int4_fast", "int4_qdq", "int4_qdq+extended",
                          "int4_gather", "int8", "fp4", "nf4", "static_qdq_s8", "static_qdq_s16", "half+extended"],
         sentences, SIZES, SENTENCE, ["hidden", "pooled"], of_tokens(*SENTENCE))
def bert():
    return bert_of(attn_implementation="eager")


@network("bert_sdpa", "bert", [*FUSED, *SAVED, "dynamic"], sentences, SIZES, SENTENCE, ["hidden", "pooled"], of_tokens(*SENTENCE))
def bert_sdpa():
    return bert_of()


GPT2 = {"vocab_size": VOCABULARY, "n_layer": LAYERS, "n_embd": WIDE, "n_head": HEADS, "n_positions": 64, "attn_implementation": "eager"}


@network("gpt2", "gpt2", [*FUSED, *SAVED, *QUANTISED, "int4", "int8", "half"], masked_tokens, SIZES, ["input_ids", "attention_mask"],
         ["logits"], of_tokens("input_ids", "attention_mask"))
def gpt2():
    config = transformers.GPT2Config(**GPT2, use_cache=False)
    return Part(transformers.GPT2LMHeadModel(config), ("input_ids", "attention_mask"), ["logits"])


PAST = [f"past_{i}_{kind}" for i in range(LAYERS) for kind in ("key", "value")]
PRESENT = [f"present_{i}_{kind}" for i in range(LAYERS) for kind in ("key", "value")]


def step(batch, length, past):
    mask = torch.ones(batch, length + past, dtype=torch.int64)
    mask[-1, :1] = 0
    return (tokens(batch, length), mask, *(torch.randn(batch, HEADS, past, WIDE // HEADS) for _ in PAST))


STEP = ["input_ids", "attention_mask", *PAST]
CACHED = {"input_ids": TOKENS, "attention_mask": {0: "batch", 1: "total"}, **{name: {0: "batch", 2: "past"} for name in PAST}}
STEPS = [{"batch": 2, "length": 3, "past": 9}, {"batch": 1, "length": 1, "past": 5}]


@network("gpt2_cached", "gpt2", [*FUSED, "basic", "extended", "dynamic", "int4"], step, STEPS, STEP, ["logits", *PRESENT], CACHED)
def gpt2_cached():
    return Cached(transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)), LAYERS)


@network("llama_cached", "gpt2", ["basic", "extended", "dynamic", "fuse0", "int4", "half"], step, STEPS, STEP, ["logits", *PRESENT], CACHED)
def llama_cached():
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, num_hidden_layers=LAYERS, hidden_size=WIDE, intermediate_size=INNER,
                                      num_attention_heads=HEADS, num_key_value_heads=HEADS, attn_implementation="eager")
    return Cached(transformers.LlamaForCausalLM(config), LAYERS)


def t5_config():
    return transformers.T5Config(vocab_size=VOCABULARY, num_layers=LAYERS, d_model=WIDE, d_kv=WIDE // HEADS, d_ff=INNER, num_heads=HEADS,
                                 decoder_start_token_id=0)


@network("t5_encoder", "t5", [*FUSED, *SAVED, "dynamic"], masked_tokens, SIZES, ["input_ids", "attention_mask"], ["hidden"],
         of_tokens("input_ids", "attention_mask"))
def t5_encoder():
    return Part(transformers.T5EncoderModel(t5_config()), ("input_ids", "attention_mask"), ["last_hidden_state"])


class Decoder(nn.Module):
    """A decoder without a cache: tokens and the encoder's output in, logits out."""

    def __init__(self, decoder, head):
        super().__init__()
        self.decoder, self.head = decoder, head

    def forward(self, input_ids, encoded):
        made = self.decoder(input_ids=input_ids, attention_mask=torch.ones_like(input_ids), encoder_hidden_states=encoded, use_cache=False,
                            return_dict=True)
        return self.head(made.last_hidden_state)


def decoded(batch, length, source=11):
    return tokens(batch, length), torch.randn(batch, source, WIDE)


DECODED = {"input_ids": TOKENS, "encoded": {0: "batch", 1: "source"}}


@network("t5_decoder", "t5", [*FUSED, "basic", "extended", "dynamic"], decoded, SIZES, ["input_ids", "encoded"], ["logits"], DECODED)
def t5_decoder():
    whole = transformers.T5ForConditionalGeneration(t5_config())
    return Decoder(whole.decoder, whole.lm_head)


@network("vit", "vit", [*FUSED, *SAVED, *QUANTISED, "int4"], pixels, [{"batch": 1}, {"batch": 3}], ["pixels"], ["hidden"], IMAGES)
def vit():
    config = transformers.ViTConfig(num_hidden_layers=LAYERS, hidden_size=WIDE, intermediate_size=INNER, num_attention_heads=HEADS,
                                    image_size=32, patch_size=8, attn_implementation="eager")
    return Part(transformers.ViTModel(config, add_pooling_layer=False), ("pixel_values",), ["last_hidden_state"])


CLIP = {"hidden_size": WIDE, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "attn_implementation": "eager"}


@network("clip_text", "clip", [*FUSED, *SAVED, "dynamic"], lambda batch, length: (tokens(batch, length),), SIZES, ["input_ids"],
         ["hidden", "pooled"], of_tokens("input_ids"))
def clip_text():
    config = transformers.CLIPTextConfig(vocab_size=VOCABULARY, max_position_embeddings=64, eos_token_id=VOCABULARY - 1, **CLIP)
    return Part(transformers.CLIPTextModel(config), ("input_ids",), ["last_hidden_state", "pooler_output"])


@network("clip_vision", "clip", [*FUSED, *SAVED, "dynamic", "static_qdq"], pixels, [{"batch": 1}, {"batch": 2}], ["pixels"],
         ["hidden", "pooled"], IMAGES)
def clip_vision():
    config = transformers.CLIPVisionConfig(image_size=32, patch_size=8, **CLIP)
    return Part(transformers.CLIPVisionModel(config), ("pixel_values",), ["last_hidden_state", "pooler_output"])


def whisper_config():
    return transformers.WhisperConfig(vocab_size=VOCABULARY, d_model=WIDE, encoder_layers=LAYERS, encoder_attention_heads=HEADS,
                                      encoder_ffn_dim=INNER, decoder_layers=LAYERS, decoder_attention_heads=HEADS,
                                      decoder_ffn_dim=INNER, num_mel_bins=16, max_source_positions=24, max_target_positions=32,
                                      attn_implementation="eager", pad_token_id=0, bos_token_id=1, eos_token_id=1,
                                      decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)


@network("whisper_encoder", "bart", [*FUSED, *SAVED, "dynamic", "static_qdq"], lambda batch: (torch.randn(batch, 16, 48),),
         [{"batch": 1}, {"batch": 2}], ["mel"], ["hidden"], {"mel": {0: "batch"}})
def whisper_encoder():
    encoder = transformers.WhisperModel(whisper_config()).encoder
    return Part(encoder, ("input_features",), ["last_hidden_state"])


@network("whisper_decoder", "bart", [*FUSED, "basic", "extended", "dynamic"], decoded, SIZES, ["input_ids", "encoded"], ["logits"], DECODED)
def whisper_decoder():
    whole = transformers.WhisperForConditionalGeneration(whisper_config())
    return Decoder(whole.model.decoder, whole.proj_out)


class Convolutions(nn.Module):
    """Convolutions of several kinds, residual sums, pools, activations."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.Hardswish(),
                                  nn.Conv2d(16, 32, 1), nn.LeakyReLU(0.1))
        self.first, self.second = nn.Conv2d(32, 32, 3, 1, 1), nn.Conv2d(32, 32, 3, 1, 1, bias=False)
        self.grown = nn.Conv2d(64, 32, 3, 2, 1)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.deep(nn.functional.max_pool2d(self.stem(x), 2))
        x = torch.relu(x + self.second(nn.functional.silu(self.first(x))))
        x = torch.cat([x, torch.sigmoid(x)], 1)
        x = nn.functional.interpolate(torch.clamp(self.grown(x), 0, 6), scale_factor=2.0, mode="nearest")
        return self.head(nn.functional.avg_pool2d(x, 2).mean((2, 3)))


@network("convolutions", "bert", [*SAVED, *QUANTISED, "static_qdq_s8", "static_qdq_s16", "static_qdq+all", "static_qdq_s8+extended",
                                  "static_ops_u8", "static_ops_channels", "static_ops+all", "static_percentile", "dynamic_u8", "half",
                                  "half+extended"],
         pixels, [{"batch": 1}, {"batch": 3}], ["pixels"], ["classes"], IMAGES)
def convolutions():
    return Convolutions()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(VOCABULARY, 32), nn.LSTM(32, 48, 2, batch_first=True, bidirectional=True)
        self.gru, self.head = nn.GRU(96, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, ids):
        return self.head(self.gru(self.lstm(self.embed(ids))[0])[0])


@network("recurrent", "bert", ["basic", "extended", "dynamic", "dynamic_channels", "dynamic_u8", "dynamic+extended", "static_qdq", "half"],
         lambda batch, length: (tokens(batch, length),), SIZES, ["ids"], ["classes"], of_tokens("ids"))
def recurrent():
    return Recurrent()


# ---- For the builder of generative models
SHARED = {"vocab_size": VOCABULARY, "hidden_size": WIDE, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GROUPED = {**SHARED, "num_key_value_heads": HEADS // 2}
WINDOW = 6
LANGUAGE_MODELS = {
    "llama": lambda t: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED)),
    "mistral": lambda t: t.MistralForCausalLM(t.MistralConfig(**GROUPED, sliding_window=WINDOW)),
    "qwen2": lambda t: t.Qwen2ForCausalLM(t.Qwen2Config(**GROUPED)),
    "qwen3": lambda t: t.Qwen3ForCausalLM(t.Qwen3Config(**GROUPED, head_dim=32)),
    "phi": lambda t: t.PhiForCausalLM(t.PhiConfig(**SHARED, partial_rotary_factor=0.5)),
    "phi3": lambda t: t.Phi3ForCausalLM(t.Phi3Config(**GROUPED, original_max_position_embeddings=128)),
    "gemma": lambda t: t.GemmaForCausalLM(t.GemmaConfig(**GROUPED, head_dim=32)),
    "gemma2": lambda t: t.Gemma2ForCausalLM(t.Gemma2Config(**GROUPED, head_dim=32, sliding_window=WINDOW)),
    "granite": lambda t: t.GraniteForCausalLM(t.GraniteConfig(**GROUPED)),
    "olmo": lambda t: t.OlmoForCausalLM(t.OlmoConfig(**GROUPED)),
    "nemotron": lambda t: t.NemotronForCausalLM(t.NemotronConfig(**GROUPED)),
    "smollm3": lambda t: t.SmolLM3ForCausalLM(t.SmolLM3Config(**GROUPED)),
}
