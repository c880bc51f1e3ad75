"""Language models of two layers by onnxruntime-genai's model builder, from configurations with random weights.

usage: generative.py NAME PRECISION PROVIDER FOLDER [KEY=VALUE...]     NAME: of networks.LANGUAGE_MODELS
"""
import importlib.util
import os
import sys
import tempfile

import torch
import transformers

import networks


def builder():
    """The builder's modules import each other by their bare names."""
    package = importlib.util.find_spec("onnxruntime_genai").submodule_search_locations[0]
    sys.path.insert(0, os.path.join(package, "models"))
    import builder as module
    return module


def tokenizer(folder):
    from tokenizers import Tokenizer, models
    words = {f"w{i}": i for i in range(networks.VOCABULARY)}
    plain = Tokenizer(models.WordLevel(words, unk_token="w3"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain, bos_token="w1", eos_token="w2", unk_token="w3",
                                         pad_token="w0").save_pretrained(folder)


def make(name, precision, provider, folder, *options):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as source:
        module = networks.LANGUAGE_MODELS[name](transformers)
        for part in module.modules():  # rather than near 0, where nothing depends on the input
            if isinstance(part, torch.nn.Linear):
                torch.nn.init.normal_(part.weight, std=part.in_features**-0.5)
        module.float().save_pretrained(source)
        tokenizer(source)
        tool = builder()
        more = tool.parse_extra_options("", source, folder, precision, provider, source, [*options, "hf_remote=false"])
        tool.create_model("", source, folder, precision, provider, source, **more)


if __name__ == "__main__":
    make(*sys.argv[1:])
