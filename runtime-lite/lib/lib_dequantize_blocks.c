// Weights in block formats as numbers. Written: floats [blocks * elements]. Read: bytes of the blocks. Numbers: blocks,
// the format.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_block_format.h"

static void dequantize_block(const lib_block_format *f, const unsigned char *block, float *to) {
    signed char q[LIB_BLOCK_MOST];
    float scale[LIB_GROUPS_MOST], least[LIB_GROUPS_MOST];
    int j;
    lib_block_integers(f, block, q);
    lib_block_scales(f, block, scale, least);
    for (j = 0; j < f->elements; j++) {
        to[j] = (float)q[j] * scale[j / f->group];
        if (f->has_least) to[j] -= least[j / f->group];
    }
}

ONNXC_LIB int onnxc_lib_dequantize_blocks(void **call, void *const *data, const int64_t *numbers) {
    const lib_block_format *f = lib_block_format_of(numbers[1]);
    const unsigned char *from = (const unsigned char *)data[1];
    float *to = (float *)data[0];
    int64_t i;
    (void)call;
    for (i = 0; i < numbers[0]; i++) dequantize_block(f, from + i * f->bytes, to + i * f->elements);
    return 0;
}
