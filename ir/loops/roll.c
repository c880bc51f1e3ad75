// In: a module of legal loops. Out: the module; in host code, instructions that repeat with other numbers and variables are
// the body of a loop. Detectors have such for each class, networks of equal layers for each layer.
//
//     a(workspace + 64)                    for i in 0 .. 3:
//     n0 = read(workspace + 64)              a(workspace + table[2 i])
//     b(workspace + 192, n0)       becomes   n[i] = read(workspace + table[2 i])
//     a(workspace + 320)                     b(workspace + table[2 i + 1], n[i])
//     n1 = read(workspace + 320)
//     ...
//
// Numbers that grow by the same amount each time are computed. Variables and values that other code reads become elements of
// arrays, a value of the iteration before becomes a variable. A jump
// out of the loop around the repeated instructions leaves this one, too: L_BREAK leaves L_LOOPs.
#include "ir/loops/roll.h"
#include "compiler/base/integers.h"
#include "ir/loops/roll_impl.h"
#include "ir/target.h"
#include <string.h>

// Bounds of the search.
enum { MOST_TRIED = 32, MOST_ROTATIONS = 1024, MOST_LOOPS = 256 };
// Bytes of an iteration that carries values: chains of sums are smaller as they are, as LLVM knows their ranges.
enum { LEAST_CARRYING = 256 };
// Bytes of code, roughly.
enum { BYTES_OF_LOOP = 24, BYTES_OF_NUMBER = 5, BYTES_OF_ELEMENT = 8 };
// Bytes of a function's stack for arrays, where memory is scarce and elsewhere.
enum { MOST_STACK_FREESTANDING = 64, MOST_STACK = 16384 };

typedef struct rolling {
    lmodule *m;
    diag *diag;
    arena *arena;      // temporary, of a search
    arena *for_module; // temporary
    same_functions functions;
    text tables;
    const char *symbol;
    lfunc *f;      // that is rolled
    int64_t stack; // bytes of its arrays
    ins **pair;
    int *place;
    int capacity; // of the arrays by id
} rolling;

// ---------------------------------------------------------------- values after the loop
// A value that later code reads (live out of the loop): the one of the first iteration, and its array.
typedef struct live_out {
    ins *value, *array;
} live_out;
typedef struct live_outs {
    const matching *m;
    arena *arena;
    VEC(live_out) values;
    map at; // id of a value -> its position + 1
    bool fits;
} live_outs;

static live_out *live_out_of(const live_outs *l, const ins *first) {
    intptr_t at = (intptr_t)map_get_number(&l->at, (uint64_t)first->id);
    return at ? &l->values.at[at - 1] : NULL;
}

static void add_live_out(live_outs *l, const ins *x) {
    ins *first = l->m->pair[x->id];
    lkind k = first ? (lkind)first->type.kind : LK_VOID;
    if (k == LK_VOID || k == LK_I1 || first->type.lanes != 1 || first->op == L_VAR) {
        l->fits = false;
        return;
    }
    if (live_out_of(l, first)) return;
    VEC_PUSH(l->arena, &l->values, (live_out){first, NULL});
    map_put_number(&l->at, (uint64_t)first->id, (void *)(intptr_t)l->values.n);
}

static void find_live_outs(live_outs *l, const lblock *b) {
    for (const ins *x = b->first; x; x = x->next) {
        if (iteration_of(l->m, x) >= 0) continue;
        for (int j = 0; j < x->nargs; j++)
            if (iteration_of(l->m, x->args[j]) >= 0) add_live_out(l, x->args[j]);
        for (int j = 0; j < 2; j++)
            if (x->body[j]) find_live_outs(l, x->body[j]);
    }
}

// ---------------------------------------------------------------- numbers
static bool is_same(const number_slot *s, int count) {
    for (int t = 1; t < count; t++)
        if (s->values[t] != s->values[0]) return false;
    return true;
}

static bool is_line(const number_slot *s, int count) {
    int64_t most = INT32_MAX, first = s->values[0];
    for (int t = 0; t < count; t++)
        if (s->values[t] < -most || s->values[t] > most) return false;
    for (int t = 2; t < count; t++)
        if (s->values[t] - first != (s->values[1] - first) * t) return false;
    return count > 2;
}

static bool same_value(const value_slot *s, const ins *x, const ins *y) {
    if (x == y || s->arg != USER_ITSELF) return x == y;
    return x->op == y->op && (x->op == L_GET ? x->args[0] == y->args[0] : !strcmp(x->name, y->name));
}

static bool is_one_value(const value_slot *s, int count) {
    for (int t = 1; t < count; t++)
        if (!same_value(s, s->values[t], s->values[0])) return false;
    return true;
}

static void keep_differing(matching *m, int count) {
    int n = 0, k = 0;
    for (int j = 0; j < m->numbers.n; j++)
        if (!is_same(&m->numbers.at[j], count)) m->numbers.at[n++] = m->numbers.at[j];
    for (int j = 0; j < m->values.n; j++)
        if (!is_one_value(&m->values.at[j], count)) m->values.at[k++] = m->values.at[j];
    m->numbers.n = n, m->values.n = k;
}

// The first slot with the values of slot j.
static int first_value_slot(const matching *m, int j, int count) {
    const value_slot *own = &m->values.at[j];
    for (int i = 0; i < j; i++) {
        const value_slot *s = &m->values.at[i];
        bool same = (s->arg == USER_ITSELF) == (own->arg == USER_ITSELF);
        for (int t = 0; t < count && same; t++) same = same_value(own, own->values[t], s->values[t]);
        if (same) return i;
    }
    return j;
}

// The first slot that carries the value of slot j.
static int first_carried(const matching *m, int j) {
    int i = 0;
    while (m->carried.at[i].first != m->carried.at[j].first || m->carried.at[i].next != m->carried.at[j].next)
        i++;
    return i;
}

// The columns of the table: different numbers that are not computed.
typedef struct columns {
    VEC(const int64_t *) of;
    lkind elem;
    ins *table; // address of the first row
} columns;

static int column_of(const columns *c, const int64_t *values, int count) {
    int j = 0;
    while (j < c->of.n && memcmp(c->of.at[j], values, (size_t)count * sizeof *values)) j++;
    return j;
}

static lkind narrowest(const int64_t *values, int count, lkind least) {
    for (int t = 0; t < count; t++) {
        int64_t v = values[t];
        lkind k = v == (int8_t)v ? LK_I8 : v == (int16_t)v ? LK_I16 : v == (int32_t)v ? LK_I32 : LK_I64;
        if (k > least) least = k;
    }
    return least;
}

static columns find_columns(arena *a, const matching *m, int count) {
    columns c = {.elem = LK_I8};
    for (int j = 0; j < m->numbers.n; j++) {
        const number_slot *s = &m->numbers.at[j];
        if (is_line(s, count) || column_of(&c, s->values, count) < c.of.n) continue;
        VEC_PUSH(a, &c.of, s->values);
        c.elem = narrowest(s->values, count, c.elem);
    }
    return c;
}

static int64_t add_table(rolling *r, const columns *c, int count) {
    int size = lkind_bytes(c->elem);
    while ((int64_t)r->tables.n % size) text_addn(&r->tables, "", 1);
    int64_t at = (int64_t)r->tables.n;
    for (int t = 0; t < count; t++)
        for (int j = 0; j < c->of.n; j++)
            for (int i = 0; i < size; i++)
                text_addn(&r->tables, &(char){(char)((uint64_t)c->of.at[j][t] >> 8 * i)}, 1);
    return at;
}

// ---------------------------------------------------------------- rewriting
// Arrays by id, for the instructions that there are now.
static void grow_arrays(rolling *r) {
    int n = r->f->nins + 1, had = r->capacity;
    if (n <= had) return;
    int capacity = n + n / 2;
    ins **pair = ARENA_ARRAY(r->for_module, ins *, capacity);
    int *place = ARENA_ARRAY(r->for_module, int, capacity);
    if (had) memcpy(pair, r->pair, (size_t)had * sizeof *pair);
    if (had) memcpy(place, r->place, (size_t)had * sizeof *place);
    r->pair = pair, r->place = place, r->capacity = capacity;
}

typedef struct rewriting {
    rolling *r;
    const search *search;
    repeat of;
    matching *m;
    live_outs outs;
    columns columns;
    lbuild b;
    ins *index;   // of the iteration
    ins **array;  // by variable slot
    ins **values; // by value slot
    ins **carry;  // variables, by carried slot
    lblock head;  // of the function: arrays
} rewriting;

static void become(lfunc *f, ins *x, lop op, ltype type, int n, ins *const *args) {
    x->op = op;
    x->type = type;
    x->nargs = n;
    x->args = ARENA_ARRAY(f->arena, ins *, n);
    memcpy(x->args, args, (size_t)n * sizeof *args);
    x->name = NULL;
    x->i = 0;
}

static ins *new_array(rewriting *w, ltype t) {
    lbuild b = lbuild_new(w->r->f, w->r->f->target, w->r->diag);
    b.block = &w->head;
    return lb_local(&b, (lkind)t.kind, w->of.count, 0, false);
}

// Gets and sets of a variable become loads and stores of its element; so does its definition.
static void rewrite_variable(rewriting *w, ins *x, ins *array, ins *at) {
    lfunc *f = w->r->f;
    if (x->op == L_GET) become(f, x, L_LOAD, x->type, 2, (ins *[]){array, at});
    else if (x->op == L_SET) become(f, x, L_STORE, x->type, 3, (ins *[]){array, at, x->args[1]});
    else become(f, x, L_STORE, lt(LK_VOID, 1), 3, (ins *[]){array, at, x->args[0]});
}

typedef struct element {
    ins *array;
    int at; // iteration; -1: no element
} element;

static element element_of(const rewriting *w, const ins *variable) {
    for (int j = 0; j < w->m->variables.n; j++) {
        const variable_slot *s = w->m->variables.at[j];
        for (int t = 0; s->differ && t < w->of.count; t++)
            if (s->variables[t] == variable) return (element){w->array[j], t};
    }
    return (element){NULL, -1};
}

static void rewrite_elements(rewriting *w, lblock *block) {
    lbuild b = lbuild_new(w->r->f, w->r->f->target, w->r->diag);
    for (ins **link = &block->first; *link; link = &(*link)->next) {
        ins *x = *link;
        lblock made = {0};
        b.block = &made;
        bool inside = iteration_of(w->m, x) >= 0;
        for (int j = 0; j < x->nargs && !inside; j++) {
            const ins *arg = x->args[j];
            int t = iteration_of(w->m, arg);
            if (t < 0) continue;
            const live_out *l = live_out_of(&w->outs, w->m->pair[arg->id]);
            x->args[j] = lb_load(&b, arg->type, l->array, lb_idx(&b, t), 0);
        }
        const ins *variable = x->op == L_VAR ? x : x->op == L_GET || x->op == L_SET ? x->args[0] : NULL;
        element e = variable ? element_of(w, variable) : (element){NULL, -1};
        if (e.array) rewrite_variable(w, x, e.array, inside ? w->index : lb_idx(&b, e.at));
        link = lblock_splice(&made, link);
        for (int j = 0; j < 2; j++)
            if (x->body[j]) rewrite_elements(w, x->body[j]);
    }
    block->last = block->first;
    while (block->last && block->last->next) block->last = block->last->next;
}

// The number of this iteration.
static ins *number_of(rewriting *w, const number_slot *s) {
    lbuild *b = &w->b;
    const int64_t *v = s->values;
    int count = w->of.count;
    ltype to = s->user->args[s->arg]->type;
    ins *x;
    if (is_line(s, count)) {
        x = lb_bin(b, L_MUL, w->index, lb_idx(b, v[1] - v[0]));
        x = lb_bin(b, L_ADD, x, lb_idx(b, v[0]));
    } else {
        ins *row = lb_bin(b, L_MUL, w->index, lb_idx(b, w->columns.of.n));
        x = lb_bin(b, L_ADD, row, lb_idx(b, column_of(&w->columns, v, count)));
        x = lb_load(b, lt(w->columns.elem, 1), w->columns.table, x, lkind_bytes(w->columns.elem));
    }
    if (lkind_bits((lkind)x->type.kind) < lkind_bits((lkind)to.kind))
        return lb_conv(b, L_SEXT, (lkind)to.kind, x);
    if (lkind_bits((lkind)x->type.kind) > lkind_bits((lkind)to.kind))
        return lb_conv(b, L_ITRUNC, (lkind)to.kind, x);
    return x;
}

// Outside of the iterations.
static ins *value_before(rewriting *w, const value_slot *s, int iteration) {
    ins *v = s->values[iteration];
    if (s->arg != USER_ITSELF) return v;
    return v->op == L_GET ? lb_get(&w->b, v->args[0]) : lb_symbol(&w->b, v->name);
}

// Before the loop, values that differ are stored to arrays.
static void store_values(rewriting *w) {
    lbuild *b = &w->b;
    w->values = ARENA_ARRAY(w->r->arena, ins *, w->m->values.n + 1);
    for (int j = 0; j < w->m->values.n; j++) {
        const value_slot *s = &w->m->values.at[j];
        int first = first_value_slot(w->m, j, w->of.count);
        w->values[j] = first < j ? w->values[first] : new_array(w, s->values[0]->type);
        for (int t = 0; t < w->of.count && first == j; t++) {
            lb_store(b, w->values[j], lb_idx(b, t), value_before(w, s, t), 0);
        }
    }
}

// Before the loop, variables for values of the iteration before.
static void begin_carrying(rewriting *w) {
    const matching *m = w->m;
    w->carry = ARENA_ARRAY(w->r->arena, ins *, m->carried.n + 1);
    for (int j = 0; j < m->carried.n; j++) {
        const carried_slot *s = &m->carried.at[j];
        int known = first_carried(m, j);
        w->carry[j] = known < j ? w->carry[known] : lb_var(&w->b, "carried", s->first);
    }
}

static void carry_on(rewriting *w) {
    for (int j = 0; j < w->m->carried.n; j++)
        if (first_carried(w->m, j) == j) lb_set(&w->b, w->carry[j], w->m->carried.at[j].next);
}

static void load_value(rewriting *w, int j) {
    const value_slot *s = &w->m->values.at[j];
    if (s->arg == USER_ITSELF)
        become(w->r->f, s->user, L_LOAD, s->user->type, 2, (ins *[]){w->values[j], w->index});
    else s->user->args[s->arg] = lb_load(&w->b, s->user->args[s->arg]->type, w->values[j], w->index, 0);
}

static void make_body(rewriting *w) {
    lbuild *b = &w->b;
    ins *const *statements = w->search->statements.at + w->of.first;
    for (int j = 0, next = 0, value = 0, carry = 0; j < w->of.period; j++) {
        for (; next < w->m->numbers.n && w->m->numbers.at[next].statement == statements[j]; next++) {
            const number_slot *s = &w->m->numbers.at[next];
            s->user->args[s->arg] = number_of(w, s);
        }
        for (; value < w->m->values.n && w->m->values.at[value].statement == statements[j]; value++)
            load_value(w, value);
        for (; carry < w->m->carried.n && w->m->carried.at[carry].statement == statements[j]; carry++) {
            const carried_slot *s = &w->m->carried.at[carry];
            s->user->args[s->arg] = lb_get(b, w->carry[carry]);
        }
        lblock_append(b->block, statements[j]);
        const live_out *l = live_out_of(&w->outs, statements[j]);
        if (l) lb_store(b, l->array, w->index, statements[j], 0);
    }
    carry_on(w);
}

// Instructions that are new in the body belong to the first iteration while code around them is rewritten.
static void place_body(rewriting *w) {
    for (ins *x = w->index->body[0]->first; x; x = x->next) w->m->place[x->id] = 1 + w->of.first;
}

// What stands in the block instead: the constants of all iterations, and the loop.
static lblock *make_loop(rewriting *w, const ins *after) {
    lbuild *b = &w->b;
    lblock *made = b->block = ARENA_NEW(w->r->arena, lblock);
    for (ins *x = w->search->statements.at[w->of.first], *next; x != after; x = next) {
        next = x->next;
        if (x->op == L_CONST) lblock_append(made, x);
    }
    if (w->columns.of.n) {
        int64_t at = add_table(w->r, &w->columns, w->of.count);
        w->columns.table = lb_offset(b, lb_symbol(b, w->r->symbol), lb_idx(b, at), 1);
    }
    store_values(w);
    begin_carrying(w);
    ins *loop = w->index =
        lb_for(b, "iteration", lb_idx(b, 0), lb_idx(b, w->of.count), lb_idx(b, 1), LOOP_SERIAL);
    make_body(w);
    lb_end(b, loop);
    grow_arrays(w->r);
    w->m->pair = w->r->pair, w->m->place = w->r->place;
    place_body(w);
    return made;
}

static void replace_statements(rewriting *w, lblock *block) {
    ins *const *all = w->search->statements.at;
    ins *first = all[w->of.first], **link = &block->first;
    ins *after = all[w->of.first + w->of.period * w->of.count - 1]->next;
    while (*link != first) link = &(*link)->next;
    lblock *made = make_loop(w, after);
    *link = after;
    lblock_splice(made, link);
    block->last = block->first;
    while (block->last->next) block->last = block->last->next;
}

static void insert_head(rewriting *w) {
    ins **link = &w->r->f->body->first;
    while (*link && (*link)->op == L_PARAM) link = &(*link)->next;
    lblock_splice(&w->head, link);
}

static void make_arrays(rewriting *w) {
    w->array = ARENA_ARRAY(w->r->arena, ins *, w->m->variables.n + 1);
    for (int j = 0; j < w->m->variables.n; j++) {
        const variable_slot *s = w->m->variables.at[j];
        if (s->differ) w->array[j] = new_array(w, s->variables[0]->type);
    }
    for (int j = 0; j < w->outs.values.n; j++)
        w->outs.values.at[j].array = new_array(w, w->outs.values.at[j].value->type);
}

static void count_uses(lblock *b, bool clear) {
    for (ins *x = b->first; x; x = x->next) {
        if (clear) x->uses = 0;
        for (int j = 0; j < x->nargs && !clear; j++) x->args[j]->uses++;
        for (int j = 0; j < 2; j++)
            if (x->body[j]) count_uses(x->body[j], clear);
    }
}

static void rewrite(rewriting *w, lblock *block) {
    lfunc *f = w->r->f;
    w->b = lbuild_new(f, f->target, w->r->diag);
    make_arrays(w);
    replace_statements(w, block);
    rewrite_elements(w, f->body);
    insert_head(w);
    count_uses(f->body, true);
    count_uses(f->body, false);
    lfunc_verify(f, w->r->diag);
}

// ---------------------------------------------------------------- blocks
static int64_t bytes_of_iteration(const search *s, const repeat *of) {
    return s->bytes[of->first + of->period] - s->bytes[of->first];
}

static int64_t saved_by(const search *s, const repeat *of, const matching *m, const live_outs *l,
                        const columns *c) {
    int64_t one = bytes_of_iteration(s, of);
    int64_t table = (int64_t)c->of.n * of->count * lkind_bytes(c->elem);
    int64_t stores = 0;
    for (int j = 0; j < m->values.n; j++)
        if (first_value_slot(m, j, of->count) == j)
            stores += of->count * (m->values.at[j].arg == USER_ITSELF ? 15 : 8);
    int64_t elements = (int64_t)l->values.n * (of->count + 1) * BYTES_OF_ELEMENT;
    return one * (of->count - 1) - table - stores - elements - BYTES_OF_LOOP -
           BYTES_OF_NUMBER * (m->numbers.n + m->values.n) - BYTES_OF_ELEMENT * m->carried.n;
}

// Of the stack, for the arrays of a loop.
static int64_t bytes_of_arrays(const repeat *of, const matching *m, const live_outs *l) {
    int64_t arrays = l->values.n;
    for (int j = 0; j < m->variables.n; j++) arrays += m->variables.at[j]->differ;
    for (int j = 0; j < m->values.n; j++) arrays += first_value_slot(m, j, of->count) == j;
    return arrays * of->count * BYTES_OF_ELEMENT;
}

typedef enum rolled { ROLLED, DIFFERENT, NOT_WORTH } rolled;

static int64_t most_stack(const rolling *r) {
    return r->f->target->freestanding ? MOST_STACK_FREESTANDING : MOST_STACK;
}

static matching match_from(rolling *r, const search *s, const repeat *of, bool carries, bool reads) {
    matching m = {.arena = r->arena,
                  .functions = &r->functions,
                  .pair = r->pair,
                  .place = r->place,
                  .first = of->first,
                  .period = of->period,
                  .count = of->count,
                  .carries = carries,
                  .reads = reads};
    m.slot_of.arena = m.set.arena = r->arena;
    match_repeats(&m, s->statements.at);
    return m;
}

// Rolls what repeats from the statement on with which `of` begins, if at least so many iterations match.
static rolled roll_from(rolling *r, const search *s, lblock *block, repeat of, int least, bool carries) {
    arena *a = r->arena;
    matching m = match_from(r, s, &of, carries, false);
    if (m.count < least && m.reads_differ) m = match_from(r, s, &of, carries, true);
    if (m.count < least) return DIFFERENT;
    of.count = m.count;
    keep_differing(&m, of.count);
    columns c = find_columns(a, &m, of.count);
    live_outs l = {.m = &m, .arena = a, .at.arena = a, .fits = true};
    if (saved_by(s, &of, &m, &l, &c) < LEAST_SAVED) return NOT_WORTH;
    find_live_outs(&l, r->f->body);
    if (!l.fits) return DIFFERENT;
    int64_t stack = r->stack + bytes_of_arrays(&of, &m, &l);
    if (saved_by(s, &of, &m, &l, &c) < LEAST_SAVED || stack > most_stack(r)) return NOT_WORTH;
    r->stack = stack;
    rewrite(&(rewriting){.r = r, .search = s, .of = of, .m = &m, .outs = l, .columns = c}, block);
    return ROLLED;
}

// Iterations begin at the statement from which on most of them match, without values of the iteration before if possible.
static bool roll_repeat(rolling *r, const search *s, lblock *block, const repeat *found) {
    for (int attempt = 0; attempt < 4; attempt++)
        for (int k = 0; k < found->period && k < MOST_ROTATIONS; k++) {
            bool all = attempt % 2 == 0, carries = attempt >= 2;
            repeat of = *found;
            of.first += k;
            of.length -= k;
            of.count = of.length / of.period;
            if (of.count < 2 || (carries && bytes_of_iteration(s, &of) < LEAST_CARRYING)) break;
            rolled result = roll_from(r, s, block, of, all ? of.count : 2, carries);
            if (result == ROLLED) return true;
            if (result == NOT_WORTH) return false;
        }
    return false;
}

static void place_statement(rolling *r, const ins *x, int place) {
    r->place[x->id] = place;
    for (int j = 0; j < 2; j++)
        for (const ins *y = x->body[j] ? x->body[j]->first : NULL; y; y = y->next)
            place_statement(r, y, place);
}

static bool roll_one(rolling *r, lblock *block) {
    arena *outer = r->arena;
    bool rolled = false;
    r->arena = arena_within(outer);
    search s = roll_statements(r->arena, &r->functions, block);
    repeat_list found = roll_candidates(&s);
    if (found.n) {
        grow_arrays(r);
        memset(r->place, 0, (size_t)r->capacity * sizeof *r->place);
        for (int j = 0; j < s.statements.n; j++) place_statement(r, s.statements.at[j], j + 1);
    }
    for (int j = 0; j < found.n && j < MOST_TRIED && !rolled; j++)
        rolled = roll_repeat(r, &s, block, &found.at[j]);
    arena_destroy(r->arena);
    r->arena = outer;
    return rolled;
}

static void roll_block(rolling *r, lblock *block) {
    for (int j = 0; j < MOST_LOOPS && roll_one(r, block); j++) {
    }
    for (ins *x = block->first; x; x = x->next)
        for (int j = 0; j < 2; j++)
            if (x->body[j]) roll_block(r, x->body[j]);
}

static void add_data(rolling *r) {
    enum { ALIGN = 8 };
    ldata *d = ARENA_NEW(r->m->arena, ldata);
    *d = (ldata){.name = r->symbol,
                 .bytes = (int64_t)r->tables.n,
                 .align = ALIGN,
                 .bytes_or_null = r->tables.s,
                 .dtype = DT_U8};
    VEC_PUSH(r->m->arena, &r->m->data, d);
}

void roll_repeats(lmodule *m, diag *d) {
    arena *scratch = arena_within(m->arena);
    rolling r = {.m = m,
                 .diag = d,
                 .arena = scratch,
                 .for_module = scratch,
                 .symbol = arena_printf(m->arena, "%s_steps", m->name)};
    r.tables.arena = m->arena;
    same_functions_init(&r.functions, m, scratch);
    for (int i = 0; i < m->funcs.n; i++) {
        r.f = m->funcs.at[i];
        r.stack = 0;
        if (r.f->kernel || !r.f->body || r.f->original) continue;
        roll_block(&r, r.f->body);
    }
    if (r.tables.n) add_data(&r);
    arena_destroy(scratch);
}
