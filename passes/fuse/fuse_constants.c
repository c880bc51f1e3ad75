// Kernels that read nothing but constants: the interpreter runs them, and what they write becomes constant, if it is small. Such are
// the parts of an operator that depend on sizes only, as the weights of a Resize do, or on some of its inputs, as the factors of a
// batch normalisation; nodes whose inputs are all constant are folded before (passes/graph/fold.c). Late, when it is known which
// constants sums of products read, which become integers, other short ones are widened, such as a bias of bytes.
#include "ir/kernel/interp.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"

enum { SHORT_BYTES = 512 }; // hardly more than the code that computes as much
enum { MOST_BYTES = 2048, MOST_BYTES_OF_CONSTANTS = 1 << 16, MOST_WRITES = 4, MOST_WORK = 1 << 20 };

// Whether nothing but the kernel writes b, and steps other than kernels do not use it.
static bool is_own(const fuse *f, const site *at, const buffer *b) {
    const buffer_uses *u = &f->uses->of[b->id];
    if (b->role != BUF_TEMP || b->view_of || u->viewed || u->by_others || u->output) return false;
    for (int j = 0; j < u->sites.n; j++)
        if (u->sites.at[j] != at && site_writes(u->sites.at[j], b)) return false;
    return true;
}

// Whether all that read what `at` writes are kernels, and no sum of them runs over its elements.
static bool is_read_outside_sums(const fuse *f, const site *at) {
    for (int j = 0; j < at->writes.n; j++) {
        const buffer_uses *u = &f->uses->of[at->writes.at[j]->id];
        for (int i = 0; i < u->sites.n; i++) {
            const kernel *k = u->sites.at[i]->s->kernel;
            if (!k) continue; // a step of dims, or removed
            expr_list all = reads_only(kernel_nodes(f->arena, k, PART_ALL));
            for (int n = 0; n < all.n; n++)
                for (int d = 0; all.at[n]->buffer == at->writes.at[j] && d < all.at[n]->buffer->rank; d++)
                    if (index_reduces(k, all.at[n]->index[d])) return false;
        }
    }
    return true;
}

// How large the results may be: larger ones are computed in each run. Constants do not grow; -1: other buffers are read.
static int64_t bytes_allowed(const fuse *f, const site *at) {
    int64_t read = 0;
    for (int j = 0; j < at->reads.n; j++) {
        const buffer *b = at->reads.at[j];
        if (b->role != BUF_CONST) return -1;
        read += dtype_size(b->dtype, b->data->count);
    }
    if (!at->reads.n) return MOST_BYTES;
    if (read < SHORT_BYTES && f->late && is_read_outside_sums(f, at)) read = SHORT_BYTES;
    return read < MOST_BYTES_OF_CONSTANTS ? read : MOST_BYTES_OF_CONSTANTS;
}

static bool is_constant(const fuse *f, const site *at) {
    const kernel *k = at->s->kernel;
    int64_t bytes = 0, allowed = bytes_allowed(f, at);
    dim_list dims = kernel_dims(f->arena, k);
    for (int j = 0; j < dims.n; j++)
        if (!dim_is_const(dims.at[j])) return false;
    for (int j = 0; j < at->writes.n; j++) {
        const buffer *b = at->writes.at[j];
        const dim *size = buffer_count(b);
        int64_t count = is_own(f, at, b) && dim_is_const(size) ? dim_value(size) : 0;
        bytes += dtype_size(b->dtype, count);
        if (!count || bytes > allowed) return false;
    }
    for (int j = 0; j < k->stages.n; j++)
        if (stage_any(k->stages.at[j], expr_is_check)) return false;
    return at->writes.n && at->writes.n <= MOST_WRITES && !is_fixed(at);
}

static bool evaluate(const fuse *f, const site *at, tensor *out) {
    step *only[] = {at->s};
    region body = {.steps = {.at = only, .n = 1}};
    program alone = *f->p;
    alone.main = &body;
    alone.inputs.n = 0;
    alone.outputs.at = at->writes.at, alone.outputs.n = at->writes.n;
    const char *message;
    return interp_program(&alone, f->p->arena, NULL, out, (interp_limits){.work = MOST_WORK}, &message) ==
           INTERP_OK;
}

void fuse_constants(fuse *f) {
    for (int j = 0; j < f->order.n; j++) {
        site *at = f->order.at[j];
        tensor out[MOST_WRITES];
        if (!is_constant(f, at) || !evaluate(f, at, out)) continue;
        for (int i = 0; i < at->writes.n; i++) {
            buffer *b = at->writes.at[i];
            constant *data = constant_new(f->p->arena, out[i].dtype, out[i].rank, out[i].dims);
            data->data = out[i].data;
            b->role = BUF_CONST, b->data = data;
        }
        fuse_removed(f, at);
        f->changed = true;
    }
}
