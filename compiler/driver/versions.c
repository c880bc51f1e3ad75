// Versions of a program for certain sizes. In: lists of sizes. Out: their combinations, the conditions under
// which each runs, their names.
#include "compiler/driver/versions.h"
#include "codegen/host/interface.h"
#include <string.h>

enum { VERSIONS_MOST = 32, SUFFIX_MOST = 12 };

// ---------------------------------------------------------------- parsing
static bool parse_range(arena *a, const char *s, size_range *r) {
    const char *colon = strchr(s, ':');
    *r = (size_range){0, INT64_MAX, !colon};
    if (!colon) {
        bool ok = parse_int64(s, 0, &r->lo);
        r->hi = r->lo;
        return ok;
    }
    bool ok = colon == s || parse_int64(arena_strndup(a, s, (size_t)(colon - s)), 0, &r->lo);
    return ok && (!colon[1] || parse_int64(colon + 1, 0, &r->hi));
}

static bool is_listed(const size_list *l, const size_range *r) {
    for (int j = 0; j < l->at.n; j++) {
        const size_range *x = &l->at.at[j];
        if (x->lo == r->lo && x->hi == r->hi && x->fixed == r->fixed) return true;
    }
    return false;
}

static void add_ranges(arena *a, size_list *l, const size_range *all, int n, bool fixed) {
    for (int j = 0; j < n; j++)
        if (all[j].fixed == fixed && !is_listed(l, &all[j])) VEC_PUSH(a, &l->at, all[j]);
}

bool size_list_parse(arena *a, diag *d, const char *said, size_list *list) {
    const char *equals = strrchr(said, '=');
    *list = (size_list){.said = said};
    if (!equals || equals == said) {
        diag_error(d, NULL, "--dim %s: not of the form NAME=N, NAME=MIN:MAX or NAME=N,N,MIN:MAX", said);
        return false;
    }
    list->name = arena_strndup(a, said, (size_t)(equals - said));
    string_list parts = split_words(a, equals + 1, ',');
    size_range *all = ARENA_ARRAY(a, size_range, parts.n + 1);
    list->hull = (size_range){INT64_MAX, 0, false};
    for (int j = 0; j < parts.n; j++) {
        const char *s = parts.at[j];
        bool range = strchr(s, ':') != NULL;
        if (!parse_range(a, s, &all[j])) {
            if (range) diag_error(d, NULL, "--dim %s: '%s' is not of the form MIN:MAX", said, s);
            else diag_error(d, NULL, "--dim %s: '%s' is not a size", said, s);
            return false;
        }
        if (all[j].lo > all[j].hi) {
            diag_error(d, NULL, "--dim %s: the range '%s' is empty, %lld is more than %lld", said, s,
                       (long long)all[j].lo, (long long)all[j].hi);
            return false;
        }
        if (all[j].lo < list->hull.lo) list->hull.lo = all[j].lo;
        if (all[j].hi > list->hull.hi) list->hull.hi = all[j].hi;
    }
    add_ranges(a, list, all, parts.n, true);
    add_ranges(a, list, all, parts.n, false);
    return true;
}

// ---------------------------------------------------------------- combinations
int version_choices(arena *a, diag *d, const size_list *lists, int n, int **choices) {
    int64_t total = 1;
    for (int j = 0; j < n && total <= VERSIONS_MOST; j++) total *= lists[j].at.n;
    if (total > VERSIONS_MOST)
        diag_fatal(d, NULL, "--dim: the lists of sizes give more than %d versions", VERSIONS_MOST);
    *choices = ARENA_ARRAY(a, int, total *n + 1);
    for (int k = 0; k < total; k++) {
        int64_t rest = k;
        for (int j = n - 1; j >= 0; j--) {
            (*choices)[k * n + j] = (int)(rest % lists[j].at.n);
            rest /= lists[j].at.n;
        }
    }
    return (int)total;
}

static const char *range_text(arena *a, const size_range *r) {
    if (r->fixed) return arena_printf(a, "%lld", (long long)r->lo);
    if (r->hi == INT64_MAX) return arena_printf(a, "%lld:", (long long)r->lo);
    return arena_printf(a, "%lld:%lld", (long long)r->lo, (long long)r->hi);
}

const char *version_label(arena *a, const size_list *lists, int n, const int *choice) {
    text t = {.arena = a};
    for (int j = 0; j < n; j++)
        if (lists[j].at.n > 1)
            text_printf(&t, "%s%s=%s", t.n ? " " : "", lists[j].name,
                        range_text(a, &lists[j].at.at[choice[j]]));
    return text_str(&t);
}

const char *version_suffix(arena *a, const size_list *lists, int n, const int *choice) {
    text t = {.arena = a};
    for (int j = 0; j < n; j++) {
        const size_range *r = &lists[j].at.at[choice[j]];
        if (lists[j].at.n < 2 || !r->fixed) continue;
        const char *name = fit_identifier(a, c_identifier(a, lists[j].name, "dim"), SUFFIX_MOST);
        text_printf(&t, "_%s%lld", name, (long long)r->lo);
    }
    return text_str(&t);
}

// ---------------------------------------------------------------- conditions
dim *size_range_holds(dim *d, const size_range *r) {
    dims *t = d->table;
    if (r->fixed) return dim_eq(d, dim_const(t, r->lo));
    dim *above = dim_lt(dim_const(t, r->lo - 1), d);
    return r->hi == INT64_MAX ? above : dim_mul(above, dim_lt(d, dim_const(t, r->hi + 1)));
}

dim *size_list_holds(dim *d, const size_list *list) {
    dim *any = dim_const(d->table, 0);
    for (int j = 0; j < list->at.n; j++) any = dim_max(any, size_range_holds(d, &list->at.at[j]));
    return any;
}

const char *size_list_rule(arena *a, const size_list *list) {
    text t = {.arena = a};
    text_printf(&t, "%s must be ", list->name);
    for (int j = 0; j < list->at.n; j++) {
        const size_range *r = &list->at.at[j];
        text_add(&t, !j ? "" : j + 1 < list->at.n ? ", " : " or ");
        if (r->fixed) text_printf(&t, "%lld", (long long)r->lo);
        else if (r->hi == INT64_MAX) text_printf(&t, "at least %lld", (long long)r->lo);
        else text_printf(&t, "from %lld to %lld", (long long)r->lo, (long long)r->hi);
    }
    return text_str(&t);
}
