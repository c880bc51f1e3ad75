// In: calls of a program's probes. Out: events with values, of which handles are resolved on request.
#include "compiler/run/probe_call.h"
#include "compiler/values/values.h"
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/onnxc.h"
#include <string.h>

static probe_value value_at(const probed_node *n, bool before, const onnxc_custom_call *call, int i) {
    const onnxc_custom_tensor *from = &call->inputs[i];
    const onnxc_custom_tensor *forms = onnxc_custom_find(call, "forms");
    probe_value v = {.output = before ? -1 : n->seen[i],
                     .form = (probe_form)((const int64_t *)forms->data)[i]};
    v.name = before ? n->states[i] : n->out[v.output];
    v.tensor = (tensor){.dtype = dtype_from_onnx(from->dtype), .rank = from->rank, .count = from->count};
    v.tensor.data = from->data;
    for (int j = 0; j < from->rank; j++) v.tensor.dims[j] = from->dims[j];
    return v;
}

int probe_call(onnxc_custom_call *call) {
    probes *p = (probes *)(uintptr_t)onnxc_custom_int(call, "user", 0);
    int64_t number = onnxc_custom_int(call, "number", 0);
    arena *scratch = arena_new();
    probe_value *values = ARENA_ARRAY(scratch, probe_value, call->ninputs + 1);
    probe_event e = {
        .node = p->nodes.at[number / 2], .before = number & 1, .n = call->ninputs, .values = values};
    for (int i = 0; i < e.n; i++) values[i] = value_at(e.node, e.before, call, i);
    bool go_on = p->see(p->user, &e);
    arena_destroy(scratch);
    return !go_on;
}

// ---------------------------------------------------------------- values
static void free_value(void *value) { onnxc_value_free(value); }

typedef struct strings {
    onnxc_string *at;
    int64_t n;
} strings;
static void free_strings(void *s) { onnxc_strings_free(((strings *)s)->at, ((strings *)s)->n); }

static import_value *read_strings(arena *a, const probe_value *v) {
    strings *s = ARENA_NEW(a, strings);
    tensor t = v->tensor;
    *s = (strings){ARENA_ARRAY(a, onnxc_string, t.count + 1), t.count};
    t.dtype = DT_STRING, t.data = s->at;
    onnxc_lib_string_export(NULL, (void *const[]){s->at, v->tensor.data}, &t.count);
    arena_on_destroy(a, free_strings, s);
    return value_of_tensor(a, v->name, &t);
}

static import_value *read_handle(arena *a, const probe_value *v) {
    onnxc_value *to = ARENA_NEW(a, onnxc_value);
    port p = {.name = v->name, .boxed = true};
    p.kind = v->form == PROBE_OPTIONAL ? TYPE_OPTIONAL : TYPE_SEQUENCE;
    onnxc_lib_value_export(NULL, (void *const[]){to, v->tensor.data}, NULL);
    arena_on_destroy(a, free_value, to);
    return value_of_port(a, &p, &(tensor){.dtype = DT_U8, .count = 1, .data = to});
}

import_value *probe_read(arena *a, const probe_value *v, bool copy) {
    switch (v->form) {
    case PROBE_STRINGS: return read_strings(a, v);
    case PROBE_VALUE:
    case PROBE_OPTIONAL: return read_handle(a, v);
    case PROBE_NUMBERS:
    case PROBE_CONSTANT: break;
    }
    tensor t = v->tensor;
    if (copy && t.count) {
        t = tensor_new(a, t.dtype, t.rank, t.dims);
        memcpy(t.data, v->tensor.data, (size_t)dtype_size(t.dtype, t.count));
    }
    return value_of_tensor(a, v->name, &t);
}
