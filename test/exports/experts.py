"""Language models beyond plain attention: mixtures of experts, state spaces, linear recurrences."""
import transformers

from spec import model, sized
from text import SIZES, TOKENS, VOCABULARY, Part, masked_tokens, tokens

WIDE, INNER = sized(256, 32), sized(512, 48)
COMMON = {"vocab_size": VOCABULARY, "hidden_size": WIDE, "num_hidden_layers": sized(2, 1)}
ATTENTION = {**COMMON, "intermediate_size": INNER, "num_attention_heads": sized(4, 2), "num_key_value_heads": 2}


def unmasked(batch, length):
    return (tokens(batch, length),)


def language(name, kind, options, dynamic=True, **more):
    """Logits of a causal language model for tokens and a mask."""
    @model(name, masked_tokens, SIZES if dynamic else SIZES[:1], ["input_ids", "attention_mask"], ["logits"],
           dynamic={n: TOKENS for n in ("input_ids", "attention_mask")} if dynamic else {}, **more)
    def build():
        config = getattr(transformers, kind + "Config")(**options, use_cache=False)
        return Part(getattr(transformers, kind + "ForCausalLM")(config), ("input_ids", "attention_mask"), ["logits"])


def recurrent(name, kind, options, suffix="ForCausalLM"):
    """The same without a mask, of one length: the exporters unroll the steps of a recurrence."""
    sizes = [{"batch": 1, "length": sized(32, 9)}, {"batch": 3, "length": sized(32, 9)}]

    @model(name, unmasked, sizes, ["input_ids"], ["logits"], dynamic={"input_ids": {0: "batch"}})
    def build():
        config = getattr(transformers, kind + "Config")(**options, use_cache=False)
        return Part(getattr(transformers, kind + suffix)(config), ("input_ids",), ["logits"])


EXPERTS = {**ATTENTION, "experts_implementation": "batched_mm"}
language("mixtral", "Mixtral", {**EXPERTS, "num_local_experts": 4})
language("mixtral_eager", "Mixtral", {**ATTENTION, "num_local_experts": 4, "experts_implementation": "eager"}, dynamic=False)
language("qwen2_moe", "Qwen2Moe", {**EXPERTS, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": INNER // 2,
                                   "shared_expert_intermediate_size": INNER // 2})
language("qwen3_moe", "Qwen3Moe", {**EXPERTS, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": INNER // 2,
                                   "head_dim": 32})
language("olmoe", "Olmoe", {**EXPERTS, "num_experts": 6, "num_experts_per_tok": 2})
language("granite_moe", "GraniteMoe", {**EXPERTS, "num_local_experts": 4, "num_experts_per_tok": 2})
language("gpt_oss", "GptOss", {**EXPERTS, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 32, "sliding_window": 16})
language("deepseek_v3", "DeepseekV3", {**EXPERTS, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
                                       "moe_intermediate_size": INNER // 2, "first_k_dense_replace": 1, "q_lora_rank": 24,
                                       "kv_lora_rank": 16, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 32,
                                       "num_key_value_heads": sized(4, 2)})


@model("switch_encoder", masked_tokens, SIZES[:1], ["input_ids", "attention_mask"], ["hidden"])
def switch_encoder():
    config = transformers.SwitchTransformersConfig(vocab_size=VOCABULARY, d_model=WIDE, d_kv=sized(64, 16), d_ff=INNER, num_layers=2,
                                                   num_heads=sized(4, 2), num_experts=4)
    return Part(transformers.SwitchTransformersEncoderModel(config), ("input_ids", "attention_mask"), ["last_hidden_state"])


recurrent("mamba", "Mamba", {**COMMON, "state_size": 16})
recurrent("falcon_mamba", "FalconMamba", {**COMMON, "state_size": 16})
recurrent("mamba2", "Mamba2", {**COMMON, "state_size": 16, "num_heads": sized(8, 4), "head_dim": 2 * WIDE // sized(8, 4), "chunk_size": 8,
                               "n_groups": 2})
recurrent("rwkv", "Rwkv", {**COMMON, "num_hidden_layers": 2, "attention_hidden_size": WIDE, "intermediate_size": INNER})
recurrent("recurrent_gemma", "RecurrentGemma", {**ATTENTION, "num_hidden_layers": 3, "num_key_value_heads": 1, "lru_width": WIDE,
                                                "attention_window_size": 16})
recurrent("jamba", "Jamba", {**ATTENTION, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False,
                             "num_experts": 2, "expert_layer_period": 4, "expert_layer_offset": 1, "mamba_dt_rank": 8,
                             "experts_implementation": "batched_mm"})
recurrent("bamba", "Bamba", {**ATTENTION, "num_hidden_layers": 2, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_n_groups": 1,
                             "mamba_d_state": 16, "mamba_d_head": 2 * WIDE // 8, "mamba_chunk_size": 8})
recurrent("qwen3_next", "Qwen3Next", {**ATTENTION, "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"],
                                      "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                                      "linear_key_head_dim": 16, "linear_value_head_dim": 16, "num_experts": 4,
                                      "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                                      "shared_expert_intermediate_size": 32, "experts_implementation": "batched_mm"})
recurrent("xlstm", "xLSTM", {"vocab_size": VOCABULARY, "hidden_size": WIDE, "num_blocks": 2, "num_heads": 2, "chunk_size": 8})
