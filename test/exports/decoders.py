"""Decoders of translation and speech with caches: T5, BART, Whisper, Marian."""
import torch
import transformers
from torch import nn

from spec import model, sized
from text import VOCABULARY

LAYERS, HEADS, SIZE, WIDE, INNER = sized(2, 1), sized(4, 2), sized(64, 16), sized(256, 32), sized(512, 48)
KINDS = ("key", "value")
OWN = [f"own_{i}_{kind}" for i in range(LAYERS) for kind in KINDS]
CROSS = [f"cross_{i}_{kind}" for i in range(LAYERS) for kind in KINDS]
NEW = [f"new_{i}_{kind}" for i in range(LAYERS) for kind in KINDS]
STEPS = [{"batch": 1, "length": 1, "past": sized(31, 7), "source": sized(48, 12)}, {"batch": 2, "length": 4, "past": 3, "source": 9},
         {"batch": 3, "length": 1, "past": 12, "source": 5}]
DYNAMIC = {"tokens": {0: "batch", 1: "length"}, "encoded": {0: "batch", 1: "source"},
           **{name: {0: "batch", 2: "past"} for name in OWN}, **{name: {0: "batch", 2: "source"} for name in CROSS}}


class Decoder(nn.Module):
    """One step: tokens, the encoder's result, own and cross keys and values in; logits and the own ones out."""

    def __init__(self, inner, decoder, head):
        super().__init__()
        self.inner, self.decoder, self.head = inner, decoder, head

    def forward(self, tokens, encoded, *past):
        pairs = [(past[2 * i], past[2 * i + 1]) for i in range(2 * LAYERS)]
        cache = transformers.EncoderDecoderCache(transformers.DynamicCache(pairs[:LAYERS]), transformers.DynamicCache(pairs[LAYERS:]))
        made = self.decoder(input_ids=tokens, encoder_hidden_states=encoded, past_key_values=cache, use_cache=True, return_dict=True)
        kept = made.past_key_values.self_attention_cache
        return (self.head(made.last_hidden_state), *(t for layer in kept.layers for t in (layer.keys, layer.values)))


def step(batch, length, past, source):
    return (torch.randint(0, VOCABULARY, (batch, length)), torch.randn(batch, source, WIDE),
            *(torch.randn(batch, HEADS, past, SIZE) for _ in OWN), *(torch.randn(batch, HEADS, source, SIZE) for _ in CROSS))


def decoder(name):
    return model(name, step, STEPS, ["tokens", "encoded", *OWN, *CROSS], ["logits", *NEW], dynamic=DYNAMIC)


@decoder("t5_decoder")
def t5_decoder():
    config = transformers.T5Config(vocab_size=VOCABULARY, num_layers=LAYERS, d_model=WIDE, d_kv=SIZE, d_ff=INNER, num_heads=HEADS,
                                   decoder_start_token_id=0)
    inner = transformers.T5ForConditionalGeneration(config)
    return Decoder(inner, inner.decoder, inner.lm_head)


SHARED = {"vocab_size": VOCABULARY, "d_model": WIDE, "decoder_layers": LAYERS, "encoder_layers": 1, "decoder_attention_heads": HEADS,
          "encoder_attention_heads": HEADS, "decoder_ffn_dim": INNER, "encoder_ffn_dim": INNER}


@decoder("bart_decoder")
def bart_decoder():
    inner = transformers.BartForConditionalGeneration(transformers.BartConfig(**SHARED, max_position_embeddings=64))
    return Decoder(inner, inner.model.decoder, inner.lm_head)


@decoder("marian_decoder")
def marian_decoder():
    config = transformers.MarianConfig(**SHARED, max_position_embeddings=64, pad_token_id=1, decoder_start_token_id=1)
    inner = transformers.MarianMTModel(config)
    return Decoder(inner, inner.model.decoder, inner.lm_head)


@decoder("whisper_decoder")
def whisper_decoder():
    config = transformers.WhisperConfig(**SHARED, max_target_positions=64, max_source_positions=64, pad_token_id=1)
    inner = transformers.WhisperForConditionalGeneration(config)
    return Decoder(inner, inner.model.decoder, inner.proj_out)


class Whole(nn.Module):
    """Encoder and decoder in one, without caches."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, source, target):
        return self.inner(input_ids=source, decoder_input_ids=target, use_cache=False).logits


def both(batch, length, source):
    return torch.randint(3, VOCABULARY, (batch, source)), torch.randint(3, VOCABULARY, (batch, length))


BOTH = [{"batch": 1, "length": sized(24, 7), "source": sized(40, 12)}, {"batch": 2, "length": 5, "source": 9}]


def whole(name, kind, suffix="ForConditionalGeneration", **options):
    @model(name, both, BOTH, ["source", "target"], ["logits"],
           dynamic={"source": {0: "batch", 1: "source"}, "target": {0: "batch", 1: "length"}})
    def build():
        config = getattr(transformers, kind + "Config")(**options)
        return Whole(getattr(transformers, kind + suffix)(config))


T5 = {"vocab_size": VOCABULARY, "num_layers": LAYERS, "d_model": WIDE, "d_kv": SIZE, "d_ff": INNER, "num_heads": HEADS}
whole("t5_whole", "T5", **T5)
whole("umt5_whole", "UMT5", **T5)
whole("longt5_whole", "LongT5", **T5, local_radius=3, global_block_size=4)
whole("bart_whole", "Bart", **SHARED, max_position_embeddings=64)
whole("m2m100_whole", "M2M100", **SHARED, max_position_embeddings=64)
whole("pegasus_whole", "Pegasus", **SHARED, max_position_embeddings=64)
whole("led_whole", "LED", **SHARED, max_encoder_position_embeddings=64, max_decoder_position_embeddings=64, attention_window=4)
whole("prophetnet_whole", "ProphetNet", vocab_size=VOCABULARY, hidden_size=WIDE, encoder_ffn_dim=INNER, num_encoder_layers=1,
      num_encoder_attention_heads=HEADS, decoder_ffn_dim=INNER, num_decoder_layers=LAYERS, num_decoder_attention_heads=HEADS,
      max_position_embeddings=64)
