"""Configurations of language models in little: two layers, with the shapes of attention that the families have."""
VOCABULARY, CAPACITY, HEAD = 512, 96, 32
SHARED = {"vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
          "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GROUPED = {**SHARED, "num_key_value_heads": 2}
WINDOW = 24
SLIDING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
SCALED = {"embedding_multiplier": 6.0, "attention_multiplier": 0.1, "residual_multiplier": 0.5, "logits_scaling": 4.0}
CONVOLUTIONS = {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3}
ROUTED = {**EXPERTS, "experts_implementation": "batched_mm"}
SHARED_EXPERTS = {"moe_intermediate_size": 64, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
                  "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "experts_implementation": "batched_mm"}
LATENT = {**SHARED, "num_key_value_heads": 4, "q_lora_rank": 48, "kv_lora_rank": HEAD, "qk_nope_head_dim": 16, "qk_rope_head_dim": HEAD,
          "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_shared_experts": 1,
          "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1, "experts_implementation": "batched_mm"}
EARLY = {"vocab_size": VOCABULARY, "n_positions": 128, "n_embd": 128, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2}
LONG = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1 + i / 16 for i in range(16)],
        "long_factor": [2 + i / 4 for i in range(16)], "original_max_position_embeddings": 32}  # another table from there on
STRETCHED = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 32}


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
    "bloom": lambda t: t.BloomForCausalLM(t.BloomConfig(vocab_size=VOCABULARY, hidden_size=128, n_layer=2, n_head=4)),
    "mpt": lambda t: t.MptForCausalLM(t.MptConfig(vocab_size=VOCABULARY, d_model=128, n_layers=2, n_heads=4, max_seq_len=128)),
    "stablelm": lambda t: t.StableLmForCausalLM(t.StableLmConfig(**GROUPED, qk_layernorm=True)),
    "starcoder2": lambda t: t.Starcoder2ForCausalLM(t.Starcoder2Config(**GROUPED, sliding_window=WINDOW)),
    "olmo2": lambda t: t.Olmo2ForCausalLM(t.Olmo2Config(**GROUPED)),
    "cohere2": lambda t: t.Cohere2ForCausalLM(t.Cohere2Config(**GROUPED, **SLIDING)),
    "exaone4": lambda t: t.Exaone4ForCausalLM(t.Exaone4Config(**GROUPED, **SLIDING)),
    "llama3": lambda t: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED, rope_parameters=STRETCHED)),
    "granite": lambda t: t.GraniteForCausalLM(t.GraniteConfig(**GROUPED, **SCALED)),
    "hunyuan": lambda t: t.HunYuanDenseV1ForCausalLM(t.HunYuanDenseV1Config(**GROUPED, head_dim=32)),
    "ernie": lambda t: t.Ernie4_5ForCausalLM(t.Ernie4_5Config(**GROUPED, head_dim=32)),
    "nemotron": lambda t: t.NemotronForCausalLM(t.NemotronConfig(**GROUPED, partial_rotary_factor=0.5)),
    "gptoss": lambda t: t.GptOssForCausalLM(t.GptOssConfig(**{**GROUPED, "intermediate_size": 128}, **SLIDING, head_dim=32, num_local_experts=4,
                                                           num_experts_per_tok=2)),
    "lfm2": lambda t: t.Lfm2ForCausalLM(t.Lfm2Config(**GROUPED, **CONVOLUTIONS, block_multiple_of=64)),
    "lfm2moe": lambda t: t.Lfm2MoeForCausalLM(t.Lfm2MoeConfig(**GROUPED, **CONVOLUTIONS, **EXPERTS, num_dense_layers=1)),
    "smollm3": lambda t: t.SmolLM3ForCausalLM(t.SmolLM3Config(**GROUPED, no_rope_layers=[1, 0])),
    "gemma3": lambda t: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**GROUPED, **SLIDING, head_dim=32)),
    "olmo3": lambda t: t.Olmo3ForCausalLM(t.Olmo3Config(**GROUPED, **SLIDING)),
    "qwen3moe": lambda t: t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**GROUPED, **ROUTED, head_dim=32)),
    "neox": lambda t: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**SHARED)),
    "falcon": lambda t: t.FalconForCausalLM(t.FalconConfig(vocab_size=VOCABULARY, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
                                                           new_decoder_architecture=True, num_kv_heads=2)),
    "gptj": lambda t: t.GPTJForCausalLM(t.GPTJConfig(**EARLY, rotary_dim=16)),
    "codegen": lambda t: t.CodeGenForCausalLM(t.CodeGenConfig(**EARLY, rotary_dim=16)),
    "bigcode": lambda t: t.GPTBigCodeForCausalLM(t.GPTBigCodeConfig(**EARLY, multi_query=False)),
    "gptneo": lambda t: t.GPTNeoForCausalLM(t.GPTNeoConfig(vocab_size=VOCABULARY, max_position_embeddings=128, hidden_size=128, num_layers=2,
                                                           num_heads=4, attention_types=[[["global", "local"], 1]], window_size=WINDOW)),
    "mixtral": lambda t: t.MixtralForCausalLM(t.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2,
                                                              experts_implementation="batched_mm")),
    "qwen2moe": lambda t: t.Qwen2MoeForCausalLM(t.Qwen2MoeConfig(**GROUPED, **ROUTED, shared_expert_intermediate_size=64)),
    "olmoe": lambda t: t.OlmoeForCausalLM(t.OlmoeConfig(**GROUPED, num_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm")),
    "deepseek3": lambda t: t.DeepseekV3ForCausalLM(t.DeepseekV3Config(**LATENT)),
    "cohere": lambda t: t.CohereForCausalLM(t.CohereConfig(**GROUPED, use_qk_norm=True, logit_scale=0.25)),
    "glm": lambda t: t.GlmForCausalLM(t.GlmConfig(**GROUPED, head_dim=32, partial_rotary_factor=0.5)),
    "glm4": lambda t: t.Glm4ForCausalLM(t.Glm4Config(**GROUPED, head_dim=32, partial_rotary_factor=0.5)),
    "phi3long": lambda t: t.Phi3ForCausalLM(t.Phi3Config(**GROUPED, original_max_position_embeddings=32, rope_parameters=LONG)),
    "helium": lambda t: t.HeliumForCausalLM(t.HeliumConfig(**GROUPED, head_dim=32)),
    "persimmon": lambda t: t.PersimmonForCausalLM(t.PersimmonConfig(**SHARED)),
    "bitnet": lambda t: t.BitNetForCausalLM(t.BitNetConfig(**GROUPED)),
    "diffllama": lambda t: t.DiffLlamaForCausalLM(t.DiffLlamaConfig(**GROUPED)),
    "seedoss": lambda t: t.SeedOssForCausalLM(t.SeedOssConfig(**GROUPED, head_dim=32)),
    "apertus": lambda t: t.ApertusForCausalLM(t.ApertusConfig(**GROUPED)),
    "arcee": lambda t: t.ArceeForCausalLM(t.ArceeConfig(**GROUPED)),
    "dots1": lambda t: t.Dots1ForCausalLM(t.Dots1Config(**GROUPED, **SHARED_EXPERTS, head_dim=32)),
    "glm4moe": lambda t: t.Glm4MoeForCausalLM(t.Glm4MoeConfig(**GROUPED, **SHARED_EXPERTS, head_dim=32)),
    "phimoe": lambda t: t.PhimoeForCausalLM(t.PhimoeConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2,
                                                           experts_implementation="batched_mm")),
    "vaultgemma": lambda t: t.VaultGemmaForCausalLM(t.VaultGemmaConfig(**GROUPED, head_dim=32, sliding_window=WINDOW)),
    "biogpt": lambda t: t.BioGptForCausalLM(t.BioGptConfig(**SHARED)),
    "xglm": lambda t: t.XGLMForCausalLM(t.XGLMConfig(vocab_size=VOCABULARY, d_model=128, ffn_dim=256, num_layers=2, attention_heads=4,
                                                     max_position_embeddings=128)),
    "ctrl": lambda t: t.CTRLLMHeadModel(t.CTRLConfig(vocab_size=VOCABULARY, n_positions=128, n_embd=128, dff=256, n_layer=2, n_head=4)),
    "gemma3n": lambda t: t.Gemma3nForCausalLM(t.Gemma3nTextConfig(
        **GROUPED, head_dim=32, sliding_window=WINDOW, layer_types=SLIDING["layer_types"], vocab_size_per_layer_input=VOCABULARY,
        hidden_size_per_layer_input=16, num_kv_shared_layers=0, laurel_rank=8, activation_sparsity_pattern=[0.0, 0.0], altup_num_inputs=2)),
}
