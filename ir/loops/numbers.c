// In: a module of legal loops. Out: the module; kernels that differ only in numbers read these from a table, which is
// a parameter, so that they become equal and the emitter stores one of them. Quantised networks have many: convolutions
// of one shape with other scales.
//
//     scaled = mul x, 0.017      becomes     scaled = mul x, load numbers, 0
//
// A kernel and the kernels that it calls make a unit. Units of one shape are a group. Numbers that are the same in all
// units of a group stay; numbers that are equal to each other in every unit share an entry. Where two sizes of a unit are equal,
// expressions with them are one instruction; in another unit they are two. So arithmetic on sizes is described where it is used,
// as a tree (ir/loops/size_trees.h), and copied for each combination of entries.
//
// Loops that kernels with different ends have in common (ir/loops/outline.c) are separate units. Their entries stand
// first in the tables of the kernels that call them.
#include "ir/loops/numbers.h"
#include "compiler/base/integers.h"
#include "ir/loops/loops_share.h"
#include "ir/loops/outline.h"
#include "ir/loops/size_trees.h"
#include "ir/target.h"
#include <string.h>

// Groups must save more than tables and arguments cost, in instructions.
enum { COST_OF_TABLE = 8, MOST_ENTRIES = 64 };
// Smaller sizes, such as the steps of tiles, stay in the code; where a target with vectors uses none, only 0 and 1. An
// innermost loop has registers for some: tiles of six rows and four panels are as fast with all of theirs.
enum { LEAST_SIZE = 16, LEAST_SIZE_OF_SCALARS = 2, SIZES_OF_LOOP = 12 };
// In shapes: a scale that may become a number of the table. Other constants keep their values.
enum { ANY_SCALE = -1 };

typedef struct number {
    ltype type;
    int64_t i;
    double f;
    int loop; // the innermost loop around a size, by its number in the unit; 0: none, or there are loops in it
} number;

typedef struct unit {
    lfunc *f;
    VEC(number) numbers;  // in the order of their uses
    const int64_t *shape; // everything else; of the first unit of a group
    int nshape;
    VEC(lfunc *) parts; // kernels that it calls, in the order of their first calls
    int instructions;
    int loops;                 // innermost ones
    bool tiles;                // multiplies matrix tiles
    struct unit *next;         // of the group
    struct unit *group;        // the first of it; NULL: none
    bool is_called;            // by a kernel, whose table has the entries
    const struct unit *calls;  // such a unit; NULL: none
    const struct table *table; // of the group of a unit that is called
} unit;

typedef struct entry {
    number first; // in the first unit of the group
    int use;      // its first use
    int64_t at;   // in the table, bytes
} entry;

typedef struct table {
    int n;
    int64_t bytes; // with what precedes its entries
    entry entries[MOST_ENTRIES];
} table;

typedef struct sharing {
    lmodule *m;
    diag *diag;
    arena *arena;         // temporary
    map functions;        // by name
    const lfunc **caller; // by position in the module: the only function that calls it
    bool *several;        // others call it, too
    bool *taken;          // its address is used otherwise
    VEC(int64_t) shape;   // of the unit that is described
    text tables;
    const char *symbol;
    map table_of; // name of a kernel -> offset + 1
    map table_at; // hash of a table -> offset + 1
    map called;   // units that kernels call, by name
} sharing;

// ---------------------------------------------------------------- numbers that may differ
static bool may_be_vector(const ins *x) { return x->type.lanes > 1 || x->op == L_CALL; }

static int64_t least_size(const lfunc *f) {
    return !f->target->vector_bits || lblock_any(f->body, may_be_vector) ? LEAST_SIZE : LEAST_SIZE_OF_SCALARS;
}

// Lengths, strides and offsets of whole arrays.
static bool takes_size(const ins *user, int arg, int64_t least) {
    const ins *x = user->args[arg];
    if (x->type.kind != LK_I64 || x->type.lanes != 1 || x->i < least) return false;
    lclass c = lop_class(user->op);
    if (user->op == L_FOR) return user->role != LOOP_UNROLL;
    if (user->op == L_LOAD || user->op == L_STORE) return arg == 1;
    return c == LC_ARITHMETIC || c == LC_MIN_MAX || c == LC_COMPARE || c == LC_SELECT || c == LC_POINTER ||
           user->op == L_CALL;
}

// Of the index of an offset.
static bool takes_scale(const ins *x) {
    return x->op == L_OFFSET && x->i >= LEAST_SIZE && x->args[1]->type.kind == LK_I64;
}

// Of any size: for arithmetic outside of the innermost loops, and strides, which they add up.
static bool takes_small_size(const ins *user, int arg) {
    lclass c = lop_class(user->op);
    return takes_size(user, arg, 2) ||
           ((c == LC_SHIFT || c == LC_BITS) && user->args[arg]->type.kind == LK_I64);
}

// LLVM uses the value of counts of shifts, of small indices and bounds.
static bool takes_number(const ins *user, int arg, int64_t least) {
    if (user->args[arg]->op != L_CONST) return false;
    if (!least) return takes_small_size(user, arg);
    if (takes_size(user, arg, least)) return true;
    lkind k = (lkind)user->args[arg]->type.kind;
    bool element = k == LK_F32 || k == LK_F64 || k == LK_I8 || k == LK_I16 || k == LK_I32;
    if (user->op == L_STORE || user->op == L_STOREN) return arg == 2 && (element || k == LK_I64);
    if (!element) return false;
    if (lkind_is_int(k) && user->args[arg]->type.lanes == 1) return false;
    lclass c = lop_class(user->op);
    return c == LC_ARITHMETIC || c == LC_MULADD || c == LC_FLOAT || c == LC_MIN_MAX || c == LC_COMPARE ||
           c == LC_SELECT;
}

static bool same_number(const number *x, const number *y) {
    return x->i == y->i && memcmp(&x->f, &y->f, sizeof x->f) == 0;
}

// ---------------------------------------------------------------- shapes

typedef struct describing {
    sharing *s;
    unit *u;
    int *order; // by id: order of definition
    int *loops; // by id: the loop around it
    size_trees trees;
    int defined;
    int loop; // around what is described (see number)
} describing;

static void add(describing *d, int64_t v) { VEC_PUSH(d->s->arena, &d->s->shape, v); }

static void add_name(describing *d, const char *s) { add(d, (int64_t)hash_string(HASH_SEED, s ? s : "")); }

static void add_facts(describing *d, const ins *x) {
    int64_t facts[] = {
        x->op,   x->type.kind, x->type.lanes, x->nargs, takes_scale(x) ? ANY_SCALE : x->i,
        x->elem, x->shared,    x->align,      x->role,  (x->body[0] != NULL) + 2 * (x->body[1] != NULL)};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) add(d, facts[i]);
}

static void add_operand(describing *d, const ins *x, int arg, int loop) {
    const ins *from = x->args[arg];
    int64_t bits;
    if (takes_number(x, arg, d->trees.least[x->id])) {
        VEC_PUSH(d->s->arena, &d->u->numbers, (number){from->type, from->i, from->f, loop});
        add(d, from->type.kind << 16 | from->type.lanes);
        return;
    }
    if (d->trees.nodes[from->id]) {
        add_facts(d, from);
        for (int i = 0; i < from->nargs; i++) add_operand(d, from, i, d->loops[from->id]);
        return;
    }
    add(d, d->order[from->id]);
    if (from->op != L_CONST) return;
    memcpy(&bits, &from->f, sizeof bits);
    add(d, from->i);
    add(d, bits);
    add(d, from->type.kind << 16 | from->type.lanes);
}

static int position(const sharing *s, const ins *x) {
    bool refers = x->op == L_CALL || x->op == L_SYMBOL;
    return refers ? (int)(intptr_t)map_get(&s->functions, x->name) - 1 : -1;
}

static const unit *called_unit(const sharing *s, const ins *x) {
    return x->op == L_CALL ? map_get(&s->called, x->name) : NULL;
}

// The kernel that only the kernel of x calls; else NULL.
static lfunc *called_part(const sharing *s, const ins *x) {
    int at = position(s, x);
    if (at < 0 || called_unit(s, x) || s->several[at] || s->taken[at] || !s->caller[at]->kernel) return NULL;
    lfunc *f = s->m->funcs.at[at];
    return f->kernel && f->body && !f->exported ? f : NULL;
}

static void add_function(describing *d, const lfunc *f);

static bool is_known_part(const unit *u, const lfunc *f) {
    for (int i = 0; i < u->parts.n; i++)
        if (u->parts.at[i] == f) return true;
    return false;
}

static void add_part(describing *d, lfunc *f) {
    bool known = is_known_part(d->u, f);
    for (int i = 0; i < d->u->parts.n; i++)
        if (d->u->parts.at[i] == f) add(d, i);
    if (known) return;
    VEC_PUSH(d->s->arena, &d->u->parts, f);
    add_function(d, f);
}

static void add_block(describing *d, const lblock *b);

static void add_body(describing *d, const ins *x, const lblock *body) {
    int outer = d->loop;
    if (is_innermost_loop(x, body)) d->loop = ++d->u->loops;
    add_block(d, body);
    d->loop = outer;
}

static void add_block(describing *d, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        if (x->op == L_COMMENT) continue;
        d->loops[x->id] = d->loop;
        d->u->instructions += x->op != L_CONST;
        bool operand = x->op == L_CONST || d->trees.nodes[x->id];
        d->order[x->id] = operand ? -1 : d->defined++;
        if (operand) continue;
        d->u->tiles |= lop_class(x->op) == LC_TILE;
        add_facts(d, x);
        for (int i = 0; i < x->nargs; i++) add_operand(d, x, i, d->loop);
        if (takes_scale(x))
            VEC_PUSH(d->s->arena, &d->u->numbers, (number){x->args[1]->type, x->i, 0, d->loop});
        lfunc *part = called_part(d->s, x);
        const unit *called = called_unit(d->s, x);
        if (called) d->u->calls = called;
        if (part) add_part(d, part);
        else if (called) add(d, (int64_t)(intptr_t)called->table);
        else if (x->op == L_SYMBOL || x->op == L_CALL) add_name(d, x->name);
        for (int i = 0; x->mask && i < x->type.lanes; i++) add(d, x->mask[i]);
        for (int i = 0; i < 2; i++)
            if (x->body[i]) add_body(d, x, x->body[i]);
    }
    add(d, -1);
}

static void add_function(describing *d, const lfunc *f) {
    arena *a = d->s->arena;
    describing own = {.s = d->s,
                      .u = d->u,
                      .order = ARENA_ARRAY(a, int, f->nins + 1),
                      .trees = size_trees_of(a, f, least_size(f)),
                      .loops = ARENA_ARRAY(a, int, f->nins + 1)};
    add(&own, least_size(f));
    add(&own, (int64_t)(intptr_t)f->target);
    for (int i = 0; i < f->params.n; i++) {
        const lparam *p = &f->params.at[i];
        add(&own, p->type.kind << 16 | p->type.lanes);
        add(&own, p->constant << 17 | p->is_const << 16 | p->dtype);
        add(&own, p->elem);
    }
    int64_t rest[] = {f->params.n, f->result.kind, f->result.lanes,
                      f->noalias,  f->strict_fp,   f->half_vectors};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) add(&own, rest[i]);
    add_block(&own, f->body);
}

static bool has_shape(const unit *u, const sharing *s) {
    return u->nshape == s->shape.n &&
           memcmp(u->shape, s->shape.at, (size_t)u->nshape * sizeof *u->shape) == 0;
}

// ---------------------------------------------------------------- tables
static bool varies(const unit *group, int use) {
    for (const unit *u = group->next; u; u = u->next)
        if (!same_number(&u->numbers.at[use], &group->numbers.at[use])) return true;
    return false;
}

static bool always_equal(const unit *group, int x, int y) {
    for (const unit *u = group; u; u = u->next) {
        const number *a = &u->numbers.at[x], *b = &u->numbers.at[y];
        if (a->type.kind != b->type.kind || a->type.lanes != b->type.lanes || !same_number(a, b))
            return false;
    }
    return true;
}

// Elements in the table: vectors up to 256 bits are stored whole where smaller units broadcast by instructions of
// their own.
static int stored_lanes(const target *t, ltype type) {
    int bytes = type.lanes * lkind_bytes((lkind)type.kind);
    return !t->arch.scalar_operands && t->vector_bits <= 256 && bytes <= 32 && !(bytes & (bytes - 1))
               ? type.lanes
               : 1;
}

// The entries of a group, and the entry of each use; NULL: it stays a number. False: too many, so that
// there are none.
static bool find_entries(const unit *group, table *t, const entry **of_use) {
    int64_t before = group->calls ? group->calls->table->bytes : 0;
    t->n = 0, t->bytes = before;
    for (int use = 0; use < group->numbers.n; use++) {
        int j = 0;
        if (!varies(group, use)) continue;
        while (j < t->n && !always_equal(group, t->entries[j].use, use)) j++;
        if (j == MOST_ENTRIES) {
            memset(of_use, 0, (size_t)group->numbers.n * sizeof *of_use);
            t->n = 0, t->bytes = before;
            return false;
        }
        if (j == t->n) {
            number first = group->numbers.at[use];
            int64_t size =
                (int64_t)lkind_bytes((lkind)first.type.kind) * stored_lanes(group->f->target, first.type);
            t->entries[t->n++] = (entry){first, use, round_up(t->bytes, size)};
            t->bytes = t->entries[j].at + size;
        }
        of_use[use] = &t->entries[j];
    }
    return true;
}

// ---------------------------------------------------------------- innermost loops
// Whether the sizes of that loop would not stay in registers.
static bool is_crowded(const unit *group, int loop) {
    int of[SIZES_OF_LOOP], n = 0;
    for (int use = 0; use < group->numbers.n; use++) {
        int j = 0;
        const number *v = &group->numbers.at[use];
        if (v->loop != loop || v->type.kind != LK_I64 || !varies(group, use)) continue;
        while (j < n && !always_equal(group, of[j], use)) j++;
        if (j == SIZES_OF_LOOP) return true;
        if (j == n) of[n++] = use;
    }
    return false;
}

static bool same_sizes(const unit *x, const unit *y, int loop) {
    for (int use = 0; use < x->numbers.n; use++) {
        const number *v = &x->numbers.at[use];
        if (v->type.kind != LK_I64 || (loop && v->loop != loop)) continue;
        if (!same_number(v, &y->numbers.at[use])) return false;
    }
    return true;
}

// Keeps the units that have the sizes of the first one in that loop (0: anywhere); the other units become a separate group.
static unit *split_group(unit *group, int loop) {
    unit *others = NULL, **last = &others, **kept = &group->next;
    for (unit *u = group->next; u; u = u->next) {
        if (same_sizes(group, u, loop)) *kept = u, kept = &u->next;
        else *last = u, last = &u->next;
    }
    *kept = *last = NULL;
    return others;
}

static void add_number(text *t, const number *v) {
    char bytes[sizeof(int64_t)];
    float narrow = (float)v->f;
    if (v->type.kind == LK_F64) memcpy(bytes, &v->f, sizeof v->f);
    else if (v->type.kind == LK_F32) memcpy(bytes, &narrow, sizeof narrow);
    for (int i = 0; i < lkind_bytes((lkind)v->type.kind) && lkind_is_int((lkind)v->type.kind); i++)
        bytes[i] = (char)((uint64_t)v->i >> 8 * i);
    text_addn(t, bytes, (size_t)lkind_bytes((lkind)v->type.kind));
}

static void add_zeros(text *t, int64_t end) {
    while ((int64_t)t->n < end) text_addn(t, "", 1);
}

// The alignment of a table of this size: at most a cache line; in flash, which is scarce, no more than scalar entries need.
static int table_align(const target *t, int64_t bytes) {
    int align = 8, most = t->freestanding && !t->vector_bits ? 8 : 64;
    while (align < bytes && align < most) align *= 2;
    return align;
}

// Layers of equal shapes have equal tables, which are stored once.
static int64_t known_table(sharing *s, int64_t at) {
    size_t n = s->tables.n - (size_t)at;
    uint64_t hash = hash_bytes(HASH_SEED, s->tables.s + at, n);
    int64_t known = (int64_t)(intptr_t)map_get_number(&s->table_at, hash) - 1;
    if (known < 0) map_put_number(&s->table_at, hash, (void *)(intptr_t)(at + 1));
    bool same = known >= 0 && known + (int64_t)n <= at && !memcmp(s->tables.s + known, s->tables.s + at, n);
    if (same) s->tables.n = (size_t)at;
    return same ? known : at;
}

static void add_entries(text *t, int64_t at, const unit *u, const table *from) {
    for (int j = 0; j < from->n; j++) {
        add_zeros(t, at + from->entries[j].at);
        const number *v = &u->numbers.at[from->entries[j].use];
        for (int i = 0; i < stored_lanes(u->f->target, v->type); i++) add_number(t, v);
    }
}

static int64_t add_table(sharing *s, const unit *u, const table *own) {
    text *t = &s->tables;
    int64_t at = round_up((int64_t)t->n, table_align(s->m->target, own->bytes));
    add_zeros(t, at);
    if (u->calls) add_entries(t, at, u->calls, u->calls->table);
    add_entries(t, at, u, own);
    return known_table(s, at);
}

// ---------------------------------------------------------------- rewriting
typedef struct copy {
    ins *x;
    struct copy *next;
} copy;

typedef struct rewriting {
    sharing *s;
    lfunc *f;
    ins *numbers; // the parameter
    lblock start; // loads of sizes
    map sizes;    // their values, by entry
    const entry **of_use;
    int *use;         // the next
    unit *again;      // its parts so far
    size_trees trees; // of the instructions before the rewriting
    copy **copies;    // of trees, by id
} rewriting;

static void rewrite_function(rewriting *r, lfunc *f, bool outlined);

static ins *load_number(lbuild *b, ins *numbers, const entry *e) {
    ltype t = e->first.type;
    int lanes = stored_lanes(b->target, t), size = lkind_bytes((lkind)t.kind);
    ins *loaded = lb_load(b, lt((lkind)t.kind, lanes), numbers, lb_idx(b, e->at / size), lanes * size);
    return lb_splat(b, loaded, t.lanes);
}

static void append_argument(lfunc *f, ins *call, ins *value) {
    ins **args = ARENA_ARRAY(f->arena, ins *, call->nargs + 1);
    memcpy(args, call->args, (size_t)call->nargs * sizeof *args);
    args[call->nargs++] = value;
    call->args = args;
    value->uses++;
}

static void set_last_argument(ins *call, ins *value) {
    ins **last = &call->args[call->nargs - 1];
    (*last)->uses--;
    *last = value;
    value->uses++;
}

// At the start of the function: loops use them, and their stores must not come in between.
static ins *load_size(rewriting *r, const entry *e) {
    ins *known = map_get_number(&r->sizes, (uint64_t)(uintptr_t)e);
    if (known) return known;
    lbuild b = lbuild_new(r->f, r->f->target, r->s->diag);
    b.block = &r->start;
    known = load_number(&b, r->numbers, e);
    map_put_number(&r->sizes, (uint64_t)(uintptr_t)e, known);
    return known;
}

static void set_operand(ins *x, int arg, ins *value) {
    x->args[arg]->uses--;
    x->args[arg] = value;
    value->uses++;
}

static bool is_tree(const rewriting *r, const ins *x) { return x->id < r->trees.n && r->trees.nodes[x->id]; }

// x with these operands, behind it.
static ins *copy_of(rewriting *r, ins *x, ins *const *args) {
    size_t bytes = (size_t)x->nargs * sizeof *args;
    for (const copy *c = r->copies[x->id]; c; c = c->next)
        if (!memcmp(c->x->args, args, bytes)) return c->x;
    copy *made = ARENA_NEW(r->s->arena, copy);
    ins *y = made->x = ARENA_NEW(r->f->arena, ins);
    *y = *x;
    y->id = r->f->nins++;
    y->uses = 0;
    y->args = memcpy(ARENA_ARRAY(r->f->arena, ins *, x->nargs), args, bytes);
    for (int i = 0; i < y->nargs; i++) y->args[i]->uses++;
    x->next = y;
    made->next = r->copies[x->id];
    r->copies[x->id] = made;
    return y;
}

static ins *rewritten_operand(rewriting *r, lbuild *b, const ins *x, int arg) {
    ins *from = x->args[arg], *args[MOST_TREE_NODES];
    if (takes_number(x, arg, r->trees.least[x->id])) {
        const entry *e = r->of_use[(*r->use)++];
        if (!e) return from;
        return e->first.type.kind == LK_I64 ? load_size(r, e) : load_number(b, r->numbers, e);
    }
    if (!is_tree(r, from)) return from;
    for (int i = 0; i < from->nargs; i++) args[i] = rewritten_operand(r, b, from, i);
    bool same = !memcmp(args, from->args, (size_t)from->nargs * sizeof *args);
    return same ? from : copy_of(r, from, args);
}

static void rewrite_parts(rewriting *r, ins *x) {
    lfunc *part = called_part(r->s, x);
    if (part && x->op == L_CALL) append_argument(r->f, x, r->numbers);
    if (called_unit(r->s, x)) set_last_argument(x, r->numbers);
    if (!part || is_known_part(r->again, part)) return;
    VEC_PUSH(r->s->arena, &r->again->parts, part);
    rewrite_function(r, part, x->op == L_SYMBOL);
}

// Copies of what stands before x may have come in between.
static ins **link_to(const ins *x, ins **link) {
    while (*link != x) link = &(*link)->next;
    return link;
}

static void rewrite_block(rewriting *r, lblock *block) {
    lbuild b = lbuild_new(r->f, r->f->target, r->s->diag);
    for (ins **link = &block->first; *link; link = &(*link)->next) {
        ins *x = *link;
        lblock made = {0};
        b.block = &made;
        if (is_tree(r, x)) continue;
        for (int i = 0; i < x->nargs; i++) set_operand(x, i, rewritten_operand(r, &b, x, i));
        const entry *scale = takes_scale(x) ? r->of_use[(*r->use)++] : NULL;
        if (scale) {
            set_operand(x, 1, lb_bin(&b, L_MUL, x->args[1], load_size(r, scale)));
            x->i = 1;
        }
        link = link_to(x, link);
        link = lblock_splice(&made, link);
        rewrite_parts(r, x);
        for (int i = 0; i < 2; i++)
            if (x->body[i]) rewrite_block(r, x->body[i]);
        link = link_to(x, link);
    }
}

static ins *numbers_param(lfunc *f) {
    ins *numbers = lfunc_param(f, "numbers", lt_ptr(), LK_VOID, DT_NONE, true);
    f->params.at[f->params.n - 1].constant = true;
    return numbers;
}

// outlined: its last parameter is the table.
static void rewrite_function(rewriting *r, lfunc *f, bool outlined) {
    rewriting own = *r;
    own.f = f;
    own.start = (lblock){0};
    own.sizes = (map){.arena = r->s->arena};
    own.trees = size_trees_of(r->s->arena, f, least_size(f));
    own.copies = ARENA_ARRAY(r->s->arena, copy *, f->nins + 1);
    own.numbers = outlined ? f->params.at[f->params.n - 1].value : numbers_param(f);
    rewrite_block(&own, f->body);
    lblock_splice(&own.start, &own.numbers->next);
    size_trees_drop(r->s->arena, &own.trees, f);
    lfunc_verify(f, r->s->diag);
}

// Units of one shape, with the sizes of innermost loops that need them.
static void share_group(sharing *s, unit *group);

static void find_table(sharing *s, unit *group, table *t, const entry **of_use) {
    // A product of tiles takes so few instructions that address arithmetic counts.
    if (group->tiles) share_group(s, split_group(group, 0));
    // Rows at sizes that are not constants take instructions of a large product's innermost loops.
    for (int loop = 1; loop <= group->loops; loop++)
        if (group->is_called || is_crowded(group, loop)) share_group(s, split_group(group, loop));
    if (find_entries(group, t, of_use)) return;
    // Too many: equal sizes need none.
    share_group(s, split_group(group, 0));
    find_entries(group, t, of_use);
}

static bool is_worth_a_table(const unit *group) {
    int others = 0;
    for (const unit *u = group->next; u; u = u->next) others++;
    return (int64_t)others * (group->instructions - COST_OF_TABLE) >= COST_OF_TABLE;
}

// The unit becomes the first one of its group, with a table of its own.
static void take_bodies(const unit *group, const unit *u) {
    lfunc_share(u->f, group->f);
    for (int i = 0; i < u->parts.n; i++) // a function that shared its body before has no parts of its own
        if (u->parts.at[i] != group->parts.at[i]) lfunc_share(u->parts.at[i], group->parts.at[i]);
}

static void share_group(sharing *s, unit *group) {
    if (!group) return;
    table *t = ARENA_NEW(s->arena, table);
    const entry **of_use = ARENA_ARRAY(s->arena, const entry *, group->numbers.n + 1);
    t->bytes = group->calls ? group->calls->table->bytes : 0;
    if (is_worth_a_table(group)) find_table(s, group, t, of_use);
    for (unit *u = group; u; u = u->next) {
        int use = 0;
        u->table = t;
        if (!t->bytes) continue;
        if (!u->is_called) map_put(&s->table_of, u->f->name, (void *)(intptr_t)(add_table(s, u, t) + 1));
        if (u != group) {
            take_bodies(group, u);
            continue;
        }
        u->parts.n = 0;
        rewrite_function(&(rewriting){.s = s, .of_use = of_use, .use = &use, .again = u}, u->f, u->is_called);
        if (use != u->numbers.n)
            diag_defect(s->diag, NULL, "kernel %s has %d numbers, of which %d were replaced", u->f->name,
                        u->numbers.n, use);
    }
}

// ---------------------------------------------------------------- calls
static void pass_tables(sharing *s, lfunc *f, lblock *block) {
    lbuild b = lbuild_new(f, f->target, s->diag);
    for (ins **link = &block->first; *link; link = &(*link)->next) {
        ins *x = *link;
        intptr_t at = x->op == L_CALL ? (intptr_t)map_get(&s->table_of, x->name) : 0;
        for (int i = 0; i < 2; i++)
            if (x->body[i]) pass_tables(s, f, x->body[i]);
        if (!at) continue;
        lblock made = {0};
        b.block = &made;
        append_argument(f, x, lb_offset(&b, lb_symbol(&b, s->symbol), lb_idx(&b, at - 1), 1));
        link = lblock_splice(&made, link);
    }
}

static bool owns_body(const lfunc *f) { return f->body && !f->original; }

static void add_data(sharing *s) {
    arena *a = s->m->arena;
    ldata *d = ARENA_NEW(a, ldata);
    *d = (ldata){.name = s->symbol,
                 .bytes = (int64_t)s->tables.n,
                 .align = table_align(s->m->target, (int64_t)s->tables.n),
                 .bytes_or_null = s->tables.s,
                 .dtype = DT_U8};
    VEC_PUSH(a, &s->m->data, d);
    for (int i = 0; i < s->m->funcs.n; i++)
        if (owns_body(s->m->funcs.at[i])) pass_tables(s, s->m->funcs.at[i], s->m->funcs.at[i]->body);
}

// ---------------------------------------------------------------- units
static void find_callers(sharing *s, const lfunc *f, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        int at = position(s, x);
        if (at >= 0) {
            s->several[at] |= s->caller[at] && s->caller[at] != f;
            s->taken[at] |= x->op == L_SYMBOL && !s->m->funcs.at[at]->ends_tiles;
            s->caller[at] = f;
        }
        for (int i = 0; i < 2; i++)
            if (x->body[i]) find_callers(s, f, x->body[i]);
    }
}

static void find_functions(sharing *s) {
    const lmodule *m = s->m;
    s->functions = (map){.arena = s->arena};
    s->caller = ARENA_ARRAY(s->arena, const lfunc *, m->funcs.n + 1);
    s->several = ARENA_ARRAY(s->arena, bool, m->funcs.n + 1);
    s->taken = ARENA_ARRAY(s->arena, bool, m->funcs.n + 1);
    for (int i = 0; i < m->funcs.n; i++)
        map_put(&s->functions, m->funcs.at[i]->name, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < m->funcs.n; i++)
        if (owns_body(m->funcs.at[i])) find_callers(s, m->funcs.at[i], m->funcs.at[i]->body);
}

// A kernel that host code calls.
static bool is_root(const sharing *s, int at) {
    const lfunc *f = s->m->funcs.at[at], *caller = s->caller[at];
    return f->kernel && f->body && !f->exported && caller && !caller->kernel && !s->taken[at];
}

static unit *describe(sharing *s, lfunc *f) {
    s->shape.n = 0;
    unit *u = ARENA_NEW(s->arena, unit);
    u->f = f;
    add_function(&(describing){.s = s, .u = u}, f);
    return u;
}

typedef VEC(unit *) group_list; // by their first unit
typedef VEC(lfunc *) func_list;

static void append_to_group(unit *first, unit *u) {
    u->group = first;
    while (first->next) first = first->next;
    first->next = u;
}

// A function that shares the body of another belongs to its group.
static void add_sharing(const sharing *s, const map *units, lfunc *f) {
    const unit *first = map_get_number(units, (uint64_t)(uintptr_t)f->original);
    unit *u = ARENA_NEW(s->arena, unit);
    if (!first || !first->group) return;
    *u = *first;
    u->f = f;
    u->next = NULL;
    append_to_group(first->group, u);
}

// Large models have hundreds of equal kernels: only the first of a group keeps its shape.
static void add_to_group(const sharing *s, group_list *groups, map *by_shape, unit *u) {
    size_t bytes = (size_t)s->shape.n * sizeof *s->shape.at;
    uint64_t hash = hash_bytes(HASH_SEED, s->shape.at, bytes);
    unit *first = map_get_number(by_shape, hash);
    if (first && !has_shape(first, s)) return; // equal hashes by chance
    if (!first) {
        u->shape = memcpy(arena_alloc(s->arena, bytes), s->shape.at, bytes);
        u->nshape = s->shape.n;
        map_put_number(by_shape, hash, u);
        VEC_PUSH(s->arena, groups, u);
        u->group = u;
        return;
    }
    append_to_group(first, u);
}

// Returns what kernels call.
static func_list outline_all(sharing *s) {
    lmodule *m = s->m;
    func_list called = {0};
    map ends = {.arena = s->arena};
    find_functions(s);
    for (int i = 0; i < m->funcs.n; i++) {
        lfunc *f = m->funcs.at[i];
        if (f->ends_tiles && !s->several[i] && !s->taken[i]) map_put(&ends, f->name, f);
    }
    for (int i = 0, n = m->funcs.n; i < n; i++) {
        lfunc *f = is_root(s, i) ? outline_tiles(m, m->funcs.at[i], &ends, s->diag) : NULL;
        if (f) VEC_PUSH(s->arena, &called, f);
    }
    if (called.n) find_functions(s);
    return called;
}

static void share_called(sharing *s) {
    func_list called = outline_all(s);
    group_list groups = {0};
    map by_shape = {.arena = s->arena};
    for (int i = 0; i < called.n; i++) {
        unit *u = describe(s, called.at[i]);
        u->is_called = true;
        u->table = ARENA_NEW(s->arena, table);
        add_to_group(s, &groups, &by_shape, u);
        map_put(&s->called, u->f->name, u);
    }
    for (int i = 0; i < groups.n; i++) share_group(s, groups.at[i]);
}

static void share_kernels(sharing *s) {
    const lmodule *m = s->m;
    group_list groups = {0};
    map by_shape = {.arena = s->arena}, units = by_shape;
    for (int i = 0; i < m->funcs.n; i++) {
        lfunc *f = m->funcs.at[i];
        if (!is_root(s, i)) continue;
        if (f->original) {
            add_sharing(s, &units, f);
            continue;
        }
        unit *u = describe(s, f);
        add_to_group(s, &groups, &by_shape, u);
        map_put_number(&units, (uint64_t)(uintptr_t)f, u);
    }
    for (int i = 0; i < groups.n; i++) share_group(s, groups.at[i]);
}

void share_numbers(lmodule *m, diag *d) {
    arena *scratch = arena_within(m->arena);
    sharing s = {
        .m = m, .diag = d, .arena = scratch, .symbol = arena_printf(m->arena, "%s_numbers", m->name)};
    s.table_of.arena = s.table_at.arena = s.called.arena = scratch;
    s.tables.arena = m->arena;
    share_called(&s);
    share_kernels(&s);
    if (s.tables.n) add_data(&s);
    for (int i = 0; i < m->funcs.n; i++) lfunc_follow(m->funcs.at[i]);
    arena_destroy(scratch);
}
