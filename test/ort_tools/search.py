"""Text generation in one model: GPT-2, T5 and Whisper of random weights, with the search that onnxruntime.transformers puts
around them.

usage: search.py NAME FOLDER     NAME: of SEARCHES
"""
import os
import sys
import traceback

import numpy as np
import onnx
import torch
import transformers
from onnx import numpy_helper
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel
from transformers.models.whisper.modeling_whisper import WhisperDecoder

import networks

END, PADDING = 1, 0
SCORES = ["--output_sequences_scores", "--early_stopping"]
BEAMS = ["--num_beams=3", "--num_return_sequences=2", *SCORES]
ONE = ["--num_beams=1", "--num_return_sequences=1"]
SEARCHES = {  # name: (network, options of the conversion tool)
    "gpt2_greedy": ("gpt2", [*ONE, "--no_repeat_ngram_size=2"]),
    "gpt2_beam": ("gpt2", [*BEAMS, "--output_token_scores"]),
    "gpt2_masked": ("gpt2", [*BEAMS, "--vocab_mask", "--prefix_vocab_mask", "--custom_attention_mask"]),
    "gpt2_sampling": ("gpt2", [*ONE, "--top_p=0.0001", "--min_tokens_to_keep=1", "--temperature=0.9"]),
    "t5_beam": ("t5", BEAMS),
    "t5_beam_init": ("t5", [*BEAMS, "--encoder_decoder_init"]),
    "whisper_beam": ("whisper", ["--use_forced_decoder_ids", "--use_temperature", "--output_sequence_scores"]),
}
# What the models take as inputs of one element.
PINNED = {"max_length": 24, "min_length": 1, "num_beams": 3, "num_return_sequences": 2, "length_penalty": 1.2, "repetition_penalty": 1.1,
          "temperature": 0.8}


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**networks.GPT2, bos_token_id=2, eos_token_id=END))


def t5():
    return transformers.T5ForConditionalGeneration(networks.t5_config())


def whisper():  # the tool's sound has 3000 frames
    config = networks.whisper_config()
    config.num_mel_bins, config.max_source_positions = 80, 1500
    return transformers.WhisperForConditionalGeneration(config)


NETWORKS = {"gpt2": gpt2, "t5": t5, "whisper": whisper}


# ---- The tools pass caches as tuples, which transformers 5 does not take, and export no fused attention.
def gpt2_forward(plain):
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, return_dict=None, **more):
        past = past_key_values or DynamicCache()
        if not hasattr(past, "layers"):
            past = DynamicCache([(p[0], p[1]) for p in past])
        mask = None if attention_mask is None else attention_mask.to(torch.int64)
        made = plain(self, input_ids=input_ids, past_key_values=past, attention_mask=mask, use_cache=True, return_dict=True, **more)
        return (made.logits, tuple((layer.keys, layer.values) for layer in past.layers)) if return_dict is False else made
    return forward


def whisper_forward(plain):
    def forward(self, *inputs, past_key_values=None, **more):
        if isinstance(past_key_values, (list, tuple)):
            own, cross = ([layer[i:i + 2] for layer in past_key_values] for i in (0, 2))
            past_key_values = EncoderDecoderCache(DynamicCache(own), DynamicCache(cross))
        made = plain(self, *inputs, past_key_values=past_key_values, **more)
        caches = made.past_key_values
        if hasattr(caches, "self_attention_cache"):
            pairs = zip(caches.self_attention_cache.layers, caches.cross_attention_cache.layers)
            made.past_key_values = [(own.keys, own.values, cross.keys, cross.values) for own, cross in pairs]
        return made
    return forward


def adapt():
    GPT2LMHeadModel.forward = gpt2_forward(GPT2LMHeadModel.forward)
    WhisperDecoder.forward = whisper_forward(WhisperDecoder.forward)
    plain = transformers.PreTrainedModel.from_pretrained.__func__
    transformers.PreTrainedModel.from_pretrained = classmethod(
        lambda cls, *names, **more: plain(cls, *names, **{**more, "attn_implementation": "eager"}))


# ---- Models
def convert(kind, options, source, out):
    """Writes the model. The tests that the tools run afterwards may fail: they want tokenizers."""
    from onnxruntime.transformers import convert_generation
    from onnxruntime.transformers.models.whisper import convert_to_onnx
    try:
        if kind == "whisper":
            convert_to_onnx.main(["-m", source, "--model_impl=hf", f"--output={out}", "--precision=fp32", "--provider=cpu", *options])
        else:
            convert_generation.main(["-m", source, f"--model_type={kind}", f"--output={out}/model.onnx", "--max_length=24",
                                     f"--vocab_size={networks.VOCABULARY}", f"--eos_token_id={END}", f"--pad_token_id={PADDING}",
                                     "--disable_parity", "--disable_perf_test", *options])
    except (Exception, SystemExit):
        traceback.print_exc()


def pinned(model):
    """The model with initializers in place of inputs of one element, in a version that ONNX Runtime reads."""
    for i in [i for i in model.graph.input if i.name in PINNED]:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        model.graph.initializer.append(numpy_helper.from_array(np.array([PINNED[i.name]], dtype), i.name))
        model.graph.input.remove(i)
    model.ir_version = min(model.ir_version, 10)
    return model


def make(name, folder):
    """The path of the model."""
    kind, options = SEARCHES[name]
    torch.manual_seed(0)
    os.environ["HF_HUB_OFFLINE"] = "1"
    network, source, out = NETWORKS[kind](), os.path.join(folder, "source"), os.path.join(folder, "out")
    for weights in network.parameters():
        if weights.dim() == 2:
            torch.nn.init.normal_(weights, std=1.5 * weights.shape[1] ** -0.5)
    network.save_pretrained(source)
    os.makedirs(out)
    os.chdir(out)  # where the tools leave their reports
    adapt()
    convert(kind, options, source, out)
    path = os.path.join(out, "source_beamsearch.onnx" if kind == "whisper" else "model.onnx")
    model = pinned(onnx.load(path))
    onnx.save(model, os.path.join(folder, "model.onnx"))
    return os.path.join(folder, "model.onnx")


if __name__ == "__main__":
    print(make(*sys.argv[1:]))
