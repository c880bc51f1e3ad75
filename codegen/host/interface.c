// In: a program's inputs and outputs. Out: the interface: identifiers that C and C++ accept, members of the
// two structs, and the symbolic dims in order.
#include "codegen/host/interface.h"
#include <ctype.h>
#include <string.h>

static const char *take_name(arena *a, map *taken, const char *name) {
    const char *s = name;
    for (int i = 2; map_get(taken, s); i++) s = arena_printf(a, "%s_%d", name, i);
    map_put(taken, s, (void *)"");
    return s;
}

// Names of members, which get endings such as "_capacity".
static const char *member_name(arena *a, const char *original, const char *fallback) {
    enum { MOST = 40 };
    return fit_identifier(a, c_identifier(a, original, fallback), MOST);
}

static const char *upper(arena *a, const char *s) {
    char *u = arena_strdup(a, s);
    for (char *c = u; *c; c++) *c = (char)toupper((unsigned char)*c);
    return u;
}

int64_t interface_int64_offset(int slot) { return 8 * (int64_t)slot; }
int64_t interface_pointer_offset(const target *t, int int64s, int pointer) {
    return 8 * (int64_t)int64s + (int64_t)pointer * (t->ptr_bits / 8);
}

const char *interface_ctype(const buffer *b) { return b->holds ? "onnxc_value" : dtype_c(b->dtype); }

// ---------------------------------------------------------------- tensors
typedef struct namer {
    arena *arena;
    interface *io;
    map names, macros; // taken
} namer;

// After the prefix, and before endings such as "_ZERO_POINT".
static const char *macro_name(const namer *n, const char *before, const char *name) {
    enum { ENDING = 14, LEAST = 16 };
    size_t others = strlen(n->io->name) + strlen(before) + ENDING;
    return fit_identifier(n->arena, name,
                          others + LEAST < IDENTIFIER_MOST ? IDENTIFIER_MOST - others : LEAST);
}

static void name_tensor(namer *n, io_tensor *t, const buffer *b, const char *fallback) {
    t->buffer = b;
    t->original = b->name;
    t->name = take_name(n->arena, &n->names, member_name(n->arena, b->name, fallback));
    t->macro = take_name(n->arena, &n->macros, upper(n->arena, macro_name(n, "", t->name)));
    t->first_dim = n->io->ndims;
    n->io->ndims += b->rank;
}

static void place_dims(namer *n, io_tensor *t, bool output, int *slots) {
    const buffer *b = t->buffer;
    bool absent = output && t->state; // the input has the members
    t->dims = ARENA_ARRAY(n->arena, const char *, b->rank + 1);
    t->dim_slots = ARENA_ARRAY(n->arena, int, b->rank + 1);
    for (int j = 0; j < b->rank; j++) {
        t->dim_slots[j] = -1;
        if (absent || dim_is_const(b->dims[j]) || (t->growth && j == t->growth_axis)) continue;
        t->dims[j] = take_name(n->arena, &n->names, arena_printf(n->arena, "%s_dim%d", t->name, j));
        t->dim_slots[j] = (*slots)++;
    }
    t->data_sized = output && !absent && dims_are_opaque(b->dims, b->rank);
    bool sized = false;
    for (int j = 0; j < b->rank; j++) sized |= t->dim_slots[j] >= 0;
    n->io->output_dims |= output && sized;
    if (!t->data_sized && !(n->io->capacities && output && sized)) return;
    t->capacity = take_name(n->arena, &n->names, arena_printf(n->arena, "%s_capacity", t->name));
    t->capacity_slot = (*slots)++;
}

static void add_symbol(namer *n, const dim *atom) {
    interface *io = n->io;
    if (atom->kind != DIM_SYMBOL) return;
    for (int j = 0; j < io->symbols.n; j++)
        if (io->symbols.at[j] == atom) return;
    VEC_PUSH(n->arena, &io->symbols, (dim *)atom);
}

static void name_arguments(namer *n) {
    interface *io = n->io;
    map taken = {.arena = n->arena};
    io->arguments = ARENA_ARRAY(n->arena, const char *, io->symbols.n + 1);
    for (int j = 0; j < io->symbols.n; j++)
        io->arguments[j] = take_name(n->arena, &taken, member_name(n->arena, io->symbols.at[j]->name, "dim"));
}

static void place_pointers(interface *io, const int *state) {
    for (int j = 0; j < io->nout; j++) {
        io->out[j].pointer_slot = io->out_pointers;
        io->out[j].state = state ? state[j] : 0;
        if (io->out[j].state) io->in[io->out[j].state - 1].state = j + 1;
        else io->out_pointers++;
    }
    for (int j = 0; j < io->nin; j++) io->in[j].pointer_slot = j;
    io->in_pointers = io->nin;
}

static int find_growth(const interface *io, const program *p, const dim *size) {
    for (int j = 0; j < io->growths.n; j++) {
        const io_growth *g = &io->growths.at[j];
        if (p->inputs.at[p->state[g->output] - 1]->dims[g->axis] == size) return j;
    }
    return io->growths.n;
}

static void find_growths(namer *n, const program *p) {
    interface *io = n->io;
    for (int j = 0; j < io->nout; j++) {
        int axis = state_axis(p, j);
        if (axis < 0) continue;
        io_tensor *in = &io->in[p->state[j] - 1];
        const dim *size = in->buffer->dims[axis];
        int at = find_growth(io, p, size);
        in->growth = io->out[j].growth = at + 1;
        in->growth_axis = io->out[j].growth_axis = axis;
        in->room = io->out[j].room = state_room(p, j);
        if (at < io->growths.n) continue;
        io_growth g = {.output = j, .axis = axis, .pointer_slot = io->in_pointers++};
        g.name = take_name(n->arena, &n->names, member_name(n->arena, size->name, "length"));
        VEC_PUSH(n->arena, &io->growths, g);
    }
}

static void note_scales(interface *io, const module *m) {
    for (int j = 0; j < m->scales.n; j++) {
        const io_scale *s = &m->scales.at[j];
        if (s->index < (s->output ? io->nout : io->nin)) (s->output ? io->out : io->in)[s->index].quant = s;
    }
}

// NAME_TENSOR_INDEX_setosa is the index of the label "setosa". Labels may differ in case only.
static void name_labels(namer *n, io_tensor *t) {
    const constant *labels = t->labels;
    if (!labels || labels->elem != DT_STRING) return;
    t->label_macros = ARENA_ARRAY(n->arena, const char *, labels->count);
    for (int64_t j = 0; j < labels->count; j++) {
        const char *label = c_identifier(n->arena, labels->strings[j], "");
        label = *label ? macro_name(n, t->macro, label) : "label";
        const char *macro = arena_printf(n->arena, "%s_INDEX_%s", t->macro, label);
        t->label_macros[j] = take_name(n->arena, &n->macros, macro);
    }
}

static void note_labels(namer *n, interface *io, const module *m) {
    for (int j = 0; j < io->nout; j++) io->out[j].labels = io->out[j].buffer->labels;
    for (int j = 0; j < m->indices.n; j++)
        if (m->indices.at[j].output < io->nout)
            io->out[m->indices.at[j].output].labels = m->indices.at[j].labels;
    for (int j = 0; j < io->nout; j++) name_labels(n, &io->out[j]);
}

static io_tensor *tensors_of_version(arena *a, const io_tensor *all, int n, buffer *const *buffers) {
    io_tensor *own = ARENA_ARRAY(a, io_tensor, n + 1);
    for (int j = 0; j < n; j++) {
        own[j] = all[j];
        own[j].buffer = buffers[j];
        own[j].data_sized = all[j].data_sized && dims_are_opaque(buffers[j]->dims, buffers[j]->rank);
    }
    return own;
}

static void find_symbols(namer *n, const program *p) {
    for (int j = 0; j < p->inputs.n; j++)
        for (int i = 0; i < p->inputs.at[j]->rank; i++) {
            atom_list atoms = dim_atoms(n->arena, p->inputs.at[j]->dims[i]);
            for (int k = 0; k < atoms.n; k++) add_symbol(n, atoms.at[k]);
        }
}

interface *interface_of_version(arena *a, const interface *io, const program *p) {
    interface *own = ARENA_NEW(a, interface);
    *own = *io;
    own->in = tensors_of_version(a, io->in, io->nin, p->inputs.at);
    own->out = tensors_of_version(a, io->out, io->nout, p->outputs.at);
    memset(&own->symbols, 0, sizeof own->symbols);
    own->arguments = NULL;
    find_symbols(&(namer){.arena = a, .io = own}, p);
    return own;
}

interface *interface_new(const program *p, const char *name, const target *t, bool generic, bool capacities) {
    interface *io = ARENA_NEW(p->arena, interface);
    namer n = {.arena = p->arena, .io = io, .names = {.arena = p->arena}, .macros = {.arena = p->arena}};
    io->name = c_identifier(p->arena, name, "model");
    io->macro = upper(p->arena, io->name);
    io->nin = p->inputs.n;
    io->nout = p->outputs.n;
    io->in = ARENA_ARRAY(p->arena, io_tensor, io->nin + 1);
    io->out = ARENA_ARRAY(p->arena, io_tensor, io->nout + 1);
    io->generic = generic;
    io->capacities = capacities;
    io->messages = t->hosted && generic;
    map_put(&n.macros, "WORKSPACE", (void *)"");
    for (int j = 0; j < io->nin; j++) name_tensor(&n, &io->in[j], p->inputs.at[j], "input");
    for (int j = 0; j < io->nout; j++) name_tensor(&n, &io->out[j], p->outputs.at[j], "output");
    place_pointers(io, p->state);
    find_growths(&n, p);
    note_scales(io, p->module);
    for (int j = 0; j < io->nin; j++) place_dims(&n, &io->in[j], false, &io->in_int64s);
    for (int j = 0; j < io->nout; j++) place_dims(&n, &io->out[j], true, &io->out_int64s);
    note_labels(&n, io, p->module);
    io->message = take_name(p->arena, &n.names, "message");
    find_symbols(&n, p);
    name_arguments(&n);
    io->members = n.names;
    return io;
}

void interface_add_pools(interface *io, arena *a, const memory_pools *pools) {
    for (int j = 0; pools && j < pools->n; j++) {
        const memory_pool *x = &pools->at[j];
        io_pool p = {.pool = x, .macro = arena_printf(a, "%s_POOL_%s", io->macro, upper(a, x->name))};
        if (x->section) {
            p.name = arena_printf(a, "%s_pool_%s", io->name, x->name);
        } else {
            p.name = take_name(a, &io->members, member_name(a, x->name, "pool"));
            p.size = take_name(a, &io->members, arena_printf(a, "%s_bytes", p.name));
            p.pointer_slot = io->in_pointers++, p.size_slot = io->in_int64s++;
            io->callers++;
        }
        VEC_PUSH(a, &io->pools, p);
    }
}

void interface_add_extras(interface *io, arena *a, bool context, bool hook, bool opens) {
    io->context = context;
    io->opens = opens;
    if (hook) io->hook_user = take_name(a, &io->members, "hook_user");
}
