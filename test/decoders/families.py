"""Configurations of language models in little: two layers, with the shapes of attention that the families have."""
VOCABULARY, CAPACITY, HEAD = 512, 96, 32
SHARED = {"vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
          "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GROUPED = {**SHARED, "num_key_value_heads": 2}
WINDOW = 24


def modes_of(name):
    """Whether caches are in place."""
    return [False] * (name.split("-")[1] != "static") + [True]


FAMILIES = {
    "llama": lambda t: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED)),
    "mistral": lambda t: t.MistralForCausalLM(t.MistralConfig(**GROUPED, sliding_window=WINDOW)),
    "qwen2": lambda t: t.Qwen2ForCausalLM(t.Qwen2Config(**GROUPED)),
    "qwen3": lambda t: t.Qwen3ForCausalLM(t.Qwen3Config(**GROUPED, head_dim=32)),
    "phi": lambda t: t.PhiForCausalLM(t.PhiConfig(**SHARED, partial_rotary_factor=0.5)),
    "phi3": lambda t: t.Phi3ForCausalLM(t.Phi3Config(**GROUPED, original_max_position_embeddings=128)),
    "gemma": lambda t: t.GemmaForCausalLM(t.GemmaConfig(**GROUPED, head_dim=32)),
    "gemma2": lambda t: t.Gemma2ForCausalLM(t.Gemma2Config(**GROUPED, head_dim=32, sliding_window=WINDOW)),
    "gpt2": lambda t: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=VOCABULARY, n_layer=2, n_embd=128, n_head=4, n_positions=128, bos_token_id=1,
                                                     eos_token_id=2)),
    "opt": lambda t: t.OPTForCausalLM(t.OPTConfig(vocab_size=VOCABULARY, hidden_size=128, ffn_dim=256, num_hidden_layers=2,
                                                  num_attention_heads=4, max_position_embeddings=128, word_embed_proj_dim=128)),
    "neox": lambda t: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**SHARED)),
}
