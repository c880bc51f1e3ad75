// Operators of com.microsoft that exist for one kind of device, or whose documentation does not define a result.
#include "ir/graph/absent.h"
#include <stddef.h>
#include <string.h>

#define COMPILED                                                                                             \
    "such a node holds code that was compiled for one vendor's device; the model that it was compiled from " \
    "is the portable file"
#define PAGED                                                                                                \
    "engines with paged or sparse caches on GPUs run it; models with GroupQueryAttention are portable"
#define SPECULATION                                                                                          \
    "engines that verify drafts of tokens run it on buffers of a GPU; export the model without speculative " \
    "decoding"
#define TILES                                                                                                \
    "its matrices are in tiles of cuBLASLt; quantize the float model with onnxruntime.quantization, in the " \
    "format QDQ"
#define BFP "the meaning of bfp_type is the device's; quantize with QuantizeLinear and DequantizeLinear"

static const struct absent {
    const char *name, *hint;
} absents[] = {
    {"ConvStateReplay", SPECULATION},
    {"DecoderAttention",
     "GPUs of ONNX Runtime run it; export the decoder with MultiHeadAttention or Attention"},
    {"DecoderMaskedSelfAttention",
     "convert_generation.py writes it with --use_decoder_masked_attention, for GPUs; leave that option out"},
    {"DequantizeBFP", BFP},
    {"DynamicSparseAttention", PAGED},
    {"EPContext", COMPILED},
    {"GatedDeltaNetStateReplay", SPECULATION},
    {"GemmFloat8", "GPUs with products of float8 run it; use QuantizeLinear, DequantizeLinear and MatMul"},
    {"Mamba2Verify", SPECULATION},
    {"PackedSparseAttentionIndexer", PAGED},
    {"PackedSparseAttentionIndexerMerge", PAGED},
    {"PagedAttention", PAGED},
    {"QOrderedAttention", TILES},
    {"QOrderedLongformerAttention", TILES},
    {"QuantizeBFP", BFP},
    {"RMSNormRotary", "GPUs of ONNX Runtime run it; use RMSNormalization and RotaryEmbedding"},
    {"Snpe", COMPILED},
    {"SparseAttentionIndexer", PAGED},
    {"SparsePagedAttention", PAGED},
    {"SpeculativePrefixCommit", SPECULATION},
};

const char *absent_hint(const char *domain, const char *name) {
    if (strcmp(domain, "com.microsoft") != 0) return NULL;
    for (size_t i = 0; i < sizeof absents / sizeof *absents; i++)
        if (strcmp(absents[i].name, name) == 0) return absents[i].hint;
    return NULL;
}
