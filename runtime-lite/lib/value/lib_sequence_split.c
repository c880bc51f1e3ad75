// Splits a tensor along an axis. Written: the handle of the sequence of slices. Read: x, sizes (NULL: slices
// of size 1). Numbers: dtype of x, dtype of the sizes, number of sizes (-1: one for all slices), whether
// slices keep the axis if there are no sizes, axis, rank, dims. Returns 1: the sum of the sizes is not the
// size of the axis.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_value.h"

typedef struct split_source {
    const char *x;
    const int64_t *numbers, *dims;
    int64_t dtype, axis, rank, outer, inner, size; /* size: bytes of an element of a buffer */
} split_source;

static int64_t split_element(int64_t elem) { return elem == DT_STRING ? 8 : lib_bytes(elem, 1); }

// x[.., begin ... begin + n, ..]; squeezed: without the axis
static int split_slice(void **call, const split_source *s, int64_t begin, int64_t n, int squeezed,
                       onnxc_value *to) {
    int64_t dims[32], rank = 0, i, o, row = n * s->inner, whole = s->dims[s->axis] * s->inner;
    onnxc_value *v;
    for (i = 0; i < s->rank; i++)
        if (i != s->axis || !squeezed) dims[rank++] = i == s->axis ? n : s->dims[i];
    v = lib_tensor(call, s->dtype, rank, dims);
    if (!v) return LIB_NO_MEMORY;
    for (o = 0; o < s->outer && row; o++) {
        const char *from = s->x + (o * whole + begin * s->inner) * s->size;
        if (s->dtype == DT_STRING)
            for (i = 0; i < row; i++)
                ((onnxc_string *)v->data)[o * row + i] = lib_string(((const int64_t *)(const void *)from)[i]);
        else memcpy((char *)v->data + o * row * s->size, from, (size_t)(row * s->size));
    }
    *to = *v;
    return 0;
}

static int64_t split_size(void *const *data, const int64_t *z, int64_t i) {
    if (!data[2]) return 1;
    if (z[2] < 0) i = 0;
    return z[1] == DT_I32 ? ((const int32_t *)data[2])[i] : ((const int64_t *)data[2])[i];
}

ONNXC_LIB int onnxc_lib_sequence_split(void **call, void *const *data, const int64_t *numbers) {
    split_source s;
    int64_t i, begin = 0, whole, count, n;
    onnxc_value *out;
    int failed = 0;
    s.x = (const char *)data[1];
    s.dtype = numbers[0];
    s.axis = numbers[4];
    s.rank = numbers[5];
    s.dims = numbers + 6;
    s.size = split_element(s.dtype);
    for (i = 0, s.outer = 1; i < s.axis; i++) s.outer *= s.dims[i];
    for (i = s.axis + 1, s.inner = 1; i < s.rank; i++) s.inner *= s.dims[i];
    whole = s.dims[s.axis];
    n = data[2] && numbers[2] < 0 ? split_size(data, numbers, 0) : 1;
    if (n <= 0) return 1;
    count = data[2] && numbers[2] >= 0 ? numbers[2] : (whole + n - 1) / n;
    out = lib_sequence(call, count);
    if (!out) return LIB_NO_MEMORY;
    for (i = 0; i < count && !failed; i++) {
        n = split_size(data, numbers, i);
        if (n < 0 || (numbers[2] >= 0 && n > whole - begin)) return 1;
        if (n > whole - begin) n = whole - begin;
        failed = split_slice(call, &s, begin, n, !data[2] && !numbers[3], (onnxc_value *)out->data + i);
        begin += n;
    }
    *(int64_t *)data[0] = lib_handle(out);
    return failed ? failed : begin != whole;
}
