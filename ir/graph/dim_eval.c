// Traversals of dims: evaluation, substitution, atoms. Shared parts are visited once, and nothing recurses,
// so that the depth of a dim does not matter.
#include "ir/graph/dim_impl.h"
#include <stdlib.h>
#include <string.h>

int dim_parts(const dim *d, const dim **parts) {
    int n = 0;
    for (int i = 0; i < d->nterms; i++)
        for (int k = 0; k < d->terms[i].natoms; k++) parts[n++] = d->terms[i].atoms[k];
    if (d->a) parts[n++] = d->a;
    if (d->b) parts[n++] = d->b;
    if (d->c) parts[n++] = d->c;
    return n;
}

static int by_id(const void *a, const void *b) {
    return (*(const dim *const *)a)->id - (*(const dim *const *)b)->id;
}

typedef VEC(const dim *) found_list;
static void add_found(dim_walk *w, found_list *found, const dim *d) {
    if (map_get_number(&w->place, (uint64_t)d->id)) return;
    map_put_number(&w->place, (uint64_t)d->id, w);
    VEC_PUSH(w->place.arena, found, d);
}

// Operands are made before their users, so sorting by id puts them first.
void dim_walk_init(dim_walk *w, arena *a, const dim *d) {
    const dim *parts[DIM_MAX_PARTS];
    found_list found = {0};
    *w = (dim_walk){.place = {.arena = a}};
    add_found(w, &found, d);
    for (int i = 0; i < found.n; i++) {
        int n = dim_parts(found.at[i], parts);
        for (int k = 0; k < n; k++) add_found(w, &found, parts[k]);
    }
    qsort(found.at, (size_t)found.n, sizeof *found.at, by_id);
    for (int i = 0; i < found.n; i++)
        map_put_number(&w->place, (uint64_t)found.at[i]->id, (void *)(intptr_t)(i + 1));
    w->at = found.at;
    w->n = found.n;
}

// ---- Evaluation. A part without a value spoils the result only if it is used: not in the branch of
// a select that is not taken.

typedef struct number {
    bool known;
    int64_t v;
} number;

typedef bool lookup_fn(void *user, const dim *atom, int64_t *value);

static number eval_poly(const dim_walk *w, const number *values, const dim *d) {
    number sum = {true, 0};
    for (int i = 0; i < d->nterms; i++) {
        int64_t product = d->terms[i].coef;
        for (int k = 0; k < d->terms[i].natoms; k++) {
            number x = values[dim_walk_place(w, d->terms[i].atoms[k])];
            if (!x.known || __builtin_mul_overflow(product, x.v, &product)) return (number){0};
        }
        if (__builtin_add_overflow(sum.v, product, &sum.v)) return (number){0};
    }
    return sum;
}

static number eval_division(const dim *d, int64_t a, int64_t b) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return (number){0};
    int64_t q = floor_div(a, b);
    return (number){true, d->kind == DIM_MOD ? a - b * q : q};
}

static number eval_binary(const dim *d, int64_t a, int64_t b) {
    int64_t v = 0;
    switch (d->kind) {
    case DIM_FLOORDIV:
    case DIM_MOD: return eval_division(d, a, b);
    case DIM_MIN: return (number){true, a < b ? a : b};
    case DIM_MAX: return (number){true, a > b ? a : b};
    case DIM_LT: return (number){true, a < b};
    case DIM_EQ: return (number){true, a == b};
    case DIM_BIGSUM: return (number){!__builtin_add_overflow(a, b, &v), v};
    case DIM_BIGMUL: return (number){!__builtin_mul_overflow(a, b, &v), v};
    case DIM_CONST:
    case DIM_SYMBOL:
    case DIM_OPAQUE:
    case DIM_POLY:
    case DIM_SELECT:
    case DIM_OVERFLOW: break;
    }
    return (number){0};
}

static number eval_one(const dim_walk *w, const number *values, const dim *d, lookup_fn *lookup, void *user) {
    number r = {0};
    if (d->kind == DIM_CONST) return (number){true, d->value};
    if (d->kind == DIM_SYMBOL || d->kind == DIM_OPAQUE) {
        r.known = lookup(user, d, &r.v);
        return r;
    }
    if (d->kind == DIM_POLY) return eval_poly(w, values, d);
    if (d->kind == DIM_OVERFLOW) return r;
    if (d->kind == DIM_SELECT) {
        number c = values[dim_walk_place(w, d->c)];
        return c.known ? values[dim_walk_place(w, c.v ? d->a : d->b)] : r;
    }
    number a = values[dim_walk_place(w, d->a)], b = values[dim_walk_place(w, d->b)];
    return a.known && b.known ? eval_binary(d, a.v, b.v) : r;
}

bool dim_eval(const dim *d, lookup_fn *lookup, void *user, int64_t *result) {
    if (d->kind == DIM_CONST) {
        *result = d->value;
        return true;
    }
    if (d->kind == DIM_SYMBOL || d->kind == DIM_OPAQUE) return lookup(user, d, result);
    arena *scratch = arena_new();
    dim_walk w;
    dim_walk_init(&w, scratch, d);
    number *values = ARENA_ARRAY(scratch, number, w.n);
    for (int i = 0; i < w.n; i++) values[i] = eval_one(&w, values, w.at[i], lookup, user);
    number r = values[w.n - 1];
    arena_destroy(scratch);
    if (r.known) *result = r.v;
    return r.known;
}

// ---- Substitution.

static dim *rebuild_poly(dims *to, const dim_walk *w, dim **done, const dim *d) {
    dim *sum = dim_const(to, 0);
    for (int i = 0; i < d->nterms; i++) {
        dim *product = dim_const(to, d->terms[i].coef);
        for (int k = 0; k < d->terms[i].natoms; k++)
            product = dim_mul(product, done[dim_walk_place(w, d->terms[i].atoms[k])]);
        sum = dim_add(sum, product);
    }
    return sum;
}

typedef dim *map_fn(void *user, dim *atom);

static dim *rebuild(dims *to, const dim_walk *w, dim **done, dim *d, map_fn *map, void *user) {
    dim *a = d->a ? done[dim_walk_place(w, d->a)] : NULL, *b = d->b ? done[dim_walk_place(w, d->b)] : NULL;
    switch (d->kind) {
    case DIM_CONST: return dim_const(to, d->value);
    case DIM_OVERFLOW: return to->overflow;
    case DIM_SYMBOL:
    case DIM_OPAQUE: return map(user, d);
    case DIM_POLY: return rebuild_poly(to, w, done, d);
    case DIM_FLOORDIV: return dim_floordiv(a, b);
    case DIM_MOD: return dim_mod(a, b);
    case DIM_MIN: return dim_min(a, b);
    case DIM_MAX: return dim_max(a, b);
    case DIM_LT: return dim_lt(a, b);
    case DIM_EQ: return dim_eq(a, b);
    case DIM_SELECT: return dim_select(done[dim_walk_place(w, d->c)], a, b);
    case DIM_BIGSUM: return dim_add(a, b);
    case DIM_BIGMUL: return dim_mul(a, b);
    }
    return d;
}

static dim *rebuild_all(dims *to, const dim *d, map_fn *map, void *user) {
    arena *scratch = arena_new();
    dim_walk w;
    dim_walk_init(&w, scratch, d);
    dim **done = ARENA_ARRAY(scratch, dim *, w.n);
    for (int i = 0; i < w.n; i++) done[i] = rebuild(to, &w, done, (dim *)w.at[i], map, user);
    dim *result = done[w.n - 1];
    arena_destroy(scratch);
    return result;
}

dim *dim_substitute(dim *d, map_fn *map, void *user) {
    return d->kind == DIM_CONST ? d : rebuild_all(d->table, d, map, user);
}

static dim *atom_of_name(void *user, dim *atom) {
    return atom->kind == DIM_SYMBOL ? dim_symbol(user, atom->name) : dim_opaque_named(user, atom->name);
}

dim *dim_in_table(dims *to, const dim *d) { return rebuild_all(to, d, atom_of_name, to); }

static dim *keep(void *user, dim *atom) {
    (void)user;
    return atom->min == atom->max ? dim_const(atom->table, atom->min) : atom;
}

dim *dim_simplify(dim *d) { return dim_substitute(d, keep, NULL); }

static bool is_atom(const dim *d) { return d->kind == DIM_SYMBOL || d->kind == DIM_OPAQUE; }
static bool is_leaf(const dim *d) { return d->kind == DIM_CONST || is_atom(d); }

atom_list dim_atoms(arena *a, const dim *d) {
    if (d->kind == DIM_CONST) return (atom_list){0};
    arena *scratch = arena_new();
    dim_walk w;
    dim_walk_init(&w, scratch, d);
    atom_list list = {0, ARENA_ARRAY(a, dim *, w.n)};
    for (int i = 0; i < w.n; i++)
        if (is_atom(w.at[i])) list.at[list.n++] = (dim *)w.at[i];
    arena_destroy(scratch);
    return list;
}

// Whether d has the atom `wanted`; NULL: any opaque.
static bool any_atom(const dim *d, const dim *wanted) {
    arena *scratch = arena_new();
    atom_list atoms = dim_atoms(scratch, d);
    bool found = false;
    for (int i = 0; i < atoms.n; i++)
        found |= wanted ? atoms.at[i] == wanted : atoms.at[i]->kind == DIM_OPAQUE;
    arena_destroy(scratch);
    return found;
}

bool dim_has_atom(const dim *d, const dim *atom) { return is_leaf(d) ? d == atom : any_atom(d, atom); }
bool dim_is_opaque(const dim *d) { return is_leaf(d) ? d->kind == DIM_OPAQUE : any_atom(d, NULL); }

int dim_parts_count(const dim *d) {
    if (is_leaf(d)) return 1;
    arena *scratch = arena_new();
    dim_walk w;
    dim_walk_init(&w, scratch, d);
    int n = w.n;
    arena_destroy(scratch);
    return n;
}

bool dims_are_opaque(dim *const *d, int n) {
    bool found = false;
    for (int j = 0; j < n; j++) found |= dim_is_opaque(d[j]);
    return found;
}

static bool usual_size(void *user, const dim *atom, int64_t *v) {
    int64_t usual = *(int64_t *)user;
    *v = usual < atom->min ? atom->min : usual > atom->max ? atom->max : usual;
    return true;
}
bool dim_usual(const dim *d, int64_t usual, int64_t *result) {
    return dim_eval(d, usual_size, &usual, result);
}
