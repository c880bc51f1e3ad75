// The descriptor as one block of bytes: structs, then arrays, then texts, with offsets instead of pointers,
// so that it needs no relocation.
#include "codegen/host/descriptor.h"
#include "runtime-lite/onnxc.h"
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "structs are written as they are laid out in memory");

typedef struct writer {
    arena *arena;
    text fixed, strings;
    uint32_t strings_at; // offset of `strings` in the block
    map known;           // text -> offset + 1
} writer;

static uint32_t add_text(writer *w, const char *s) {
    if (!s) s = "";
    uintptr_t at = (uintptr_t)map_get(&w->known, s);
    if (at) return (uint32_t)at - 1;
    uint32_t offset = w->strings_at + (uint32_t)w->strings.n;
    text_addn(&w->strings, s, strlen(s) + 1);
    map_put(&w->known, s, (void *)(uintptr_t)(offset + 1));
    return offset;
}

static uint32_t reserve(writer *w, size_t n) {
    static const char zeros[64];
    uint32_t at = (uint32_t)w->fixed.n;
    n = (n + 7) / 8 * 8;
    for (size_t done = 0; done < n; done += sizeof zeros)
        text_addn(&w->fixed, zeros, n - done < sizeof zeros ? n - done : sizeof zeros);
    return at;
}

static void put(writer *w, uint32_t at, const void *what, size_t n) { memcpy(w->fixed.s + at, what, n); }

static uint32_t add_dims(writer *w, const buffer *b) {
    uint32_t at = reserve(w, (size_t)b->rank * sizeof(onnxc_dim_info));
    for (int j = 0; j < b->rank; j++) {
        const dim *d = b->dims[j];
        onnxc_dim_info i = {.value = dim_is_const(d) ? dim_value(d) : -1,
                            .text = add_text(w, dim_text(w->arena, d))};
        put(w, at + (uint32_t)j * sizeof i, &i, sizeof i);
    }
    return at;
}

static uint32_t add_labels(writer *w, const constant *c) {
    int64_t n = c ? c->count : 0;
    uint32_t at = reserve(w, (size_t)n * sizeof(onnxc_label_info));
    for (int64_t j = 0; j < n; j++) {
        onnxc_label_info i = {0};
        if (c->elem == DT_STRING) {
            i.text = add_text(w, c->strings[j]);
            i.bytes = (uint32_t)c->string_sizes[j];
        } else {
            i.number = constant_int(c, j);
        }
        put(w, at + (uint32_t)((size_t)j * sizeof i), &i, sizeof i);
    }
    return at;
}

static uint32_t add_tensors(writer *w, const io_tensor *all, int n, bool output) {
    uint32_t at = reserve(w, (size_t)n * sizeof(onnxc_tensor_info));
    for (int j = 0; j < n; j++) {
        const io_tensor *t = &all[j];
        const value *v = t->buffer->value;
        onnxc_tensor_info i = {.name = add_text(w, t->original),
                               .identifier = add_text(w, t->name),
                               .doc = add_text(w, v ? v->doc : NULL),
                               .dtype = (int32_t)t->buffer->dtype,
                               .rank = (uint32_t)t->buffer->rank,
                               .first_dim = (uint32_t)t->first_dim,
                               .data_sized = t->data_sized,
                               .state = output ? (uint32_t)t->state : 0,
                               .room = output ? (uint32_t)t->room : 0,
                               .kind = t->buffer->holds != NULL,
                               .has_default = t->buffer->fallback != NULL};
        i.type = add_text(w, v ? type_text(w->arena, &v->type) : NULL);
        if (t->quant) {
            i.scale = t->quant->scale;
            i.zero_point = t->quant->zero_point;
        }
        const constant *labels = t->buffer->labels;
        if (labels) {
            i.nlabels = (uint32_t)labels->count;
            i.label_dtype = (int32_t)labels->elem;
        }
        i.dims = add_dims(w, t->buffer);
        i.labels = add_labels(w, labels);
        put(w, at + (uint32_t)j * sizeof i, &i, sizeof i);
    }
    return at;
}

static uint32_t add_symbols(writer *w, const interface *io) {
    uint32_t at = reserve(w, (size_t)io->symbols.n * sizeof(onnxc_symbol_info));
    for (int j = 0; j < io->symbols.n; j++) {
        const dim *d = io->symbols.at[j];
        onnxc_symbol_info i = {.min = d->min, .max = d->max, .name = add_text(w, d->name)};
        put(w, at + (uint32_t)j * sizeof i, &i, sizeof i);
    }
    return at;
}

static uint32_t add_metadata(writer *w, const module *m) {
    uint32_t at = reserve(w, (size_t)m->metadata.n * sizeof(uint32_t));
    for (int j = 0; j < m->metadata.n; j++) {
        uint32_t text = add_text(w, m->metadata.at[j]);
        put(w, at + (uint32_t)j * sizeof text, &text, sizeof text);
    }
    return at;
}

static writer write_descriptor(const build *b, const program *p, const build_options *o,
                               uint32_t strings_at) {
    const interface *io = b->io;
    const module *m = p->module;
    arena *a = p->arena;
    writer w = {a, {.arena = a}, {.arena = a}, strings_at, {.arena = a}};
    reserve(&w, sizeof(onnxc_descriptor));
    onnxc_descriptor d = {.magic = "onnxc-m", .interface_version = ONNXC_INTERFACE};
    d.name = add_text(&w, io->name);
    d.graph_name = add_text(&w, m->name);
    d.doc = add_text(&w, m->doc);
    d.producer = add_text(&w, m->producer);
    d.version = add_text(&w, o->version);
    d.target = add_text(&w, b->module->target->triple);
    d.model_hash = add_text(&w, o->model_hash);
    d.options_hash = add_text(&w, o->options_hash);
    d.weights = add_text(&w, o->weights);
    d.ninputs = (uint32_t)io->nin;
    d.inputs = add_tensors(&w, io->in, io->nin, false);
    d.noutputs = (uint32_t)io->nout;
    d.outputs = add_tensors(&w, io->out, io->nout, true);
    d.nsymbols = (uint32_t)io->symbols.n;
    d.symbols = add_symbols(&w, io);
    d.nmetadata = (uint32_t)m->metadata.n / 2;
    d.metadata = add_metadata(&w, m);
    d.ndims = (uint32_t)io->ndims;
    d.workspace_align = (uint32_t)b->align;
    d.workspace_bytes = dim_is_const(b->plan.workspace) ? dim_value(b->plan.workspace) : -1;
    while ((w.fixed.n + w.strings.n) % 8) text_addn(&w.strings, "", 1);
    d.bytes = (uint32_t)(w.fixed.n + w.strings.n);
    put(&w, 0, &d, sizeof d);
    return w;
}

// Texts follow the structs and arrays, whose size the first round determines.
static bytes descriptor_make(const build *b, const program *p, const build_options *o) {
    writer w = write_descriptor(b, p, o, 0);
    w = write_descriptor(b, p, o, (uint32_t)w.fixed.n);
    text_addn(&w.fixed, w.strings.s, w.strings.n);
    return (bytes){w.fixed.s, w.fixed.n};
}

void descriptor_add(build *b, const program *p, const build_options *o) {
    bytes block = descriptor_make(b, p, o);
    ldata *d = ARENA_NEW(p->arena, ldata);
    const char *name = arena_printf(p->arena, "%s_descriptor", b->io->name);
    *d = (ldata){.name = name,
                 .bytes = (int64_t)block.n,
                 .align = 8,
                 .bytes_or_null = block.at,
                 .dtype = DT_I64,
                 .exported = true};
    VEC_PUSH(p->arena, &b->module->data, d);
}
