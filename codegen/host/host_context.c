// Models with a context: the head of the weights file, NAME_open and NAME_close, and what a run loads from
// its context.
#include "codegen/host/host_impl.h"
#include "codegen/llvm/digest.h"
#include "runtime-lite/core/runtime.h"
#include <stdlib.h>
#include <string.h>

const char *weights_head_symbol(const host_builder *a) {
    return arena_printf(a->arena, "%s_weights_head", a->io->name);
}

bool has_open(const host_builder *a, const target *t) {
    return (a->o->weights || a->o->gpu) && t->hosted && !t->freestanding && !t->arch.is_text;
}

// Model, options and compiler determine the contents of the file.
static void set_id(const host_builder *a, onnxc_weights_head *head) {
    const build_options *o = a->o;
    const char *parts[] = {o->version, o->model_hash, o->options_hash};
    digest *d = digest_new(a->arena);
    for (int i = 0; i < 3; i++)
        if (parts[i]) digest_add(d, parts[i], strlen(parts[i]) + 1);
    memcpy(head->id, digest_text(d), sizeof head->id);
}

// The object's copy of the head, followed by the file's name. end_weights sets the size of the file.
void begin_weights(host_builder *a) {
    size_t n = strlen(a->o->weights) + 1;
    onnxc_weights_head *head = arena_alloc(a->arena, sizeof *head + n);
    memcpy(head->magic, "onnxc-w", 8);
    set_id(a, head);
    memcpy(head + 1, a->o->weights, n);
    a->result->weights_head = head;
    a->result->weights_bytes = sizeof *head;
    if (!a->io->opens) return;
    ldata *d = ARENA_NEW(a->arena, ldata);
    *d = (ldata){.name = weights_head_symbol(a),
                 .bytes = (int64_t)(sizeof *head + n),
                 .align = 8,
                 .bytes_or_null = head,
                 .dtype = DT_U8};
    VEC_PUSH(a->arena, &a->m->data, d);
}

void end_weights(host_builder *a) { a->result->weights_head->bytes = (uint64_t)a->result->weights_bytes; }

// Compares the first 8 bytes of the id.
static void check_weights(host *h) {
    lbuild *b = &h->b;
    const onnxc_weights_head *head = h->builder->result->weights_head;
    int64_t id;
    memcpy(&id, head->id, sizeof id);
    host_fail_if(h, lb_cmp(b, L_EQ, h->weights, lb_null(b)), ONNXC_NULL_POINTER,
                 "the context has no weights");
    ins *got = lb_load(b, i64(), h->weights, lb_idx(b, offsetof(onnxc_weights_head, id) / 8), 8);
    host_fail_if(h, lb_cmp(b, L_NE, got, lb_int(b, i64(), id)), ONNXC_BAD_WEIGHTS,
                 "the weights do not belong to this model");
}

void load_context(host *h) {
    const interface *io = h->builder->io;
    lbuild *b = &h->b;
    int extra = io->nin + io->nout;
    if (io->context) {
        if (h->data) h->context = lb_load(b, lt_ptr(), h->data, lb_idx(b, extra++), 0);
        host_fail_if(h, lb_cmp(b, L_EQ, h->context, lb_null(b)), ONNXC_NULL_POINTER,
                     "the context is a null pointer");
        if (h->builder->o->weights) {
            h->weights = lb_load(b, lt_ptr(), h->context, lb_idx(b, 0), 0);
            check_weights(h);
        }
    }
    if (!io->hook_user) return;
    if (h->data) h->hook_user = lb_load(b, lt_ptr(), h->data, lb_idx(b, extra), 0);
    else
        h->hook_user = lb_field(b, lt_ptr(), h->in, io->hook_user,
                                interface_pointer_offset(h->t, io->in_int64s, io->in_pointers));
}

static lfunc *begin_function(host *h, const char *ending, ltype result, const char *ctype) {
    host_builder *a = h->builder;
    lfunc *f = lfunc_new(a->m, arena_printf(a->arena, "%s_%s", a->io->name, ending), result);
    f->target = h->t;
    f->exported = true;
    f->ctype = ctype;
    h->b = lbuild_new(f, h->t, a->diag);
    return f;
}

static ins *open_weights(host *h, ins *options, ins *context) {
    const char *open =
        runtime_function(h->builder, "onnxc_rt_open", i32(), 3, (ltype[]){lt_ptr(), lt_ptr(), lt_ptr()});
    ins *args[] = {options, lb_symbol(&h->b, weights_head_symbol(h->builder)), context};
    return lb_call(&h->b, i32(), open, 3, args);
}

void write_context_entries(host_builder *a, const target *t) {
    host h = {.builder = a, .t = t};
    if (!a->io->opens) return;
    lfunc *f = begin_function(&h, "open", i32(), "int");
    ins *options = lfunc_param(f, "options", lt_ptr(), LK_VOID, DT_NONE, true);
    ins *context = lfunc_param(f, "context", lt_ptr(), LK_PTR, DT_NONE, false);
    lb_return(&h.b, a->o->gpu ? open_on_gpu(&h, options, context) : open_weights(&h, options, context));
    f = begin_function(&h, "close", lt(LK_VOID, 1), NULL);
    context = lfunc_param(f, "context", lt_ptr(), LK_VOID, DT_NONE, false);
    const char *close = runtime_function(a, a->o->gpu ? "onnxc_rt_gpu_close" : "onnxc_rt_close",
                                         lt(LK_VOID, 1), 1, (ltype[]){lt_ptr()});
    lb_call(&h.b, lt(LK_VOID, 1), close, 1, &context);
    lb_return(&h.b, NULL);
}
