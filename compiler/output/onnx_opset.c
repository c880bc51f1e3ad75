// Chooses the opsets of a written ONNX file. In: a module, in which nodes have the newest meaning. Out: for each
// domain the version in which all of its nodes can be expressed.
#include "compiler/output/onnx_opset.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET_WITHOUT_NODES = 13 };

typedef struct chooser {
    const module *m;
    const string_list *wanted;
    map *opsets;
    map limits; // domain -> the node that needs the oldest opset
} chooser;

static int opset_of(const map *opsets, const char *domain) { return (int)(intptr_t)map_get(opsets, domain); }
static void set_opset(map *opsets, const char *domain, int v) {
    map_put(opsets, domain, (void *)(intptr_t)v);
}

// ---------------------------------------------------------------- --opset
static bool parse_wanted(const char *s, const char **domain, size_t *n, int *version) {
    const char *equals = strrchr(s, '=');
    char *end;
    *domain = s;
    *n = equals ? (size_t)(equals - s) : 0;
    s = equals ? equals + 1 : s;
    long v = strtol(s, &end, 10);
    if (*n == 7 && memcmp(*domain, "ai.onnx", 7) == 0) *n = 0;
    *version = v > 0 && v < INT_MAX ? (int)v : 0;
    return *s >= '0' && *s <= '9' && !*end && *version;
}

// The version that --opset names for the domain; 0: none.
static int wanted_opset(const chooser *c, const char *domain) {
    int found = 0;
    for (int i = 0; i < c->wanted->n; i++) {
        const char *name;
        size_t n;
        int version;
        if (!parse_wanted(c->wanted->at[i], &name, &n, &version))
            diag_fatal(c->m->diag, NULL, "--opset='%s': expected a version, or DOMAIN=VERSION",
                       c->wanted->at[i]);
        if (strlen(domain) == n && memcmp(domain, name, n) == 0) found = version;
    }
    int newest = schema_newest_opset(domain);
    if (found && newest && found > newest)
        diag_fatal_missing(c->m->diag, NULL, "--opset=%d: this build knows domain '%s' up to opset %d", found,
                           *domain ? domain : "ai.onnx", newest);
    return found;
}

// ---------------------------------------------------------------- nodes
static int oldest_opset_from(const node *n, int opset) {
    const schema_op *s = schema_find(n->op->domain, n->op->name);
    int most = newest_version(n->op)->since;
    const char *why;
    node as;
    if (node_downgrade(n, opset, &as, &why)) return opset;
    for (int i = 0; i < s->nversions && s->versions[i].since <= most; i++)
        if (s->versions[i].since > opset && node_downgrade(n, s->versions[i].since, &as, &why))
            return s->versions[i].since;
    return most;
}

static _Noreturn void refuse(const chooser *c, const node *n, int opset, const char *why) {
    int other = newest_opset_with(n->op) < opset ? newest_opset_with(n->op) : oldest_opset_from(n, opset);
    const char *ignored;
    node as;
    while (other && !node_downgrade(n, other, &as, &ignored)) other--;
    if (other) diag_hint(c->m->diag, "opset %d of this domain can express the node", other);
    diag_fatal(c->m->diag, n->loc, "%s cannot be written in opset %d: %s", n->op->name, opset, why);
}

static void need(chooser *c, const node *n) {
    const char *domain = n->op->domain, *why;
    int wanted = wanted_opset(c, domain), opset = opset_of(c->opsets, domain);
    node as;
    if (!newest_version(n->op)) {
        if (!opset) set_opset(c->opsets, domain, wanted ? wanted : 1);
        return;
    }
    if (!opset) opset = wanted;
    if (!opset) opset = opset_of(&c->m->opsets, domain);
    if (!opset) opset = *domain ? 1 : OPSET_WITHOUT_NODES;
    bool fits = node_downgrade(n, opset, &as, &why);
    if (!fits && wanted) refuse(c, n, opset, why);
    const node *limit = map_get(&c->limits, domain);
    if (!limit || newest_opset_with(n->op) < newest_opset_with(limit->op))
        map_put(&c->limits, domain, (void *)n);
    if (!fits && opset <= newest_opset_with(n->op)) opset = oldest_opset_from(n, opset);
    set_opset(c->opsets, domain, opset);
}

// Nodes of the operator that is deprecated first lower the opset, if all others can be expressed there.
static void lower_opset(chooser *c, const char *domain) {
    const node *limit = map_get(&c->limits, domain);
    int opset = opset_of(c->opsets, domain), newest = limit ? newest_opset_with(limit->op) : INT_MAX;
    if (newest >= opset) return;
    for (int i = 0; i < c->m->nodes.n; i++) {
        const node *n = c->m->nodes.at[i];
        const char *why;
        node as;
        if (!n->graph || strcmp(n->op->domain, domain) != 0) continue;
        if (!node_downgrade(n, newest, &as, &why)) refuse(c, n, newest, why);
    }
    set_opset(c->opsets, domain, newest);
}

// Identity nodes carry outputs that no node of their graph computes. Its older versions take fewer types.
static void need_identity(chooser *c) {
    for (int i = 0; i < c->m->values.n; i++) {
        value *v = c->m->values.at[i];
        bool passed = false;
        for (int k = 0; k < v->uses.n; k++) passed |= v->uses.at[k].graph != NULL;
        if (!passed || (v->def && v->type.kind == TYPE_TENSOR)) continue;
        node *n = ARENA_NEW(c->m->arena, node);
        value **ends = ARENA_ARRAY(c->m->arena, value *, 1);
        *ends = v;
        *n = (node){
            .op = op_find("", "Identity"), .graph = v->graph, .in = ends, .nin = 1, .out = ends, .nout = 1};
        need(c, n);
    }
    int opset = opset_of(c->opsets, "");
    if (!opset) opset = wanted_opset(c, "");
    if (!opset) opset = opset_of(&c->m->opsets, "");
    set_opset(c->opsets, "", opset ? opset : OPSET_WITHOUT_NODES);
}

void choose_opsets(const module *m, const string_list *wanted, map *opsets) {
    chooser c = {.m = m, .wanted = wanted, .opsets = opsets, .limits = {.arena = m->arena}};
    wanted_opset(&c, "");
    for (int i = 0; i < m->nodes.n; i++)
        if (m->nodes.at[i]->graph) need(&c, m->nodes.at[i]);
    need_identity(&c);
    for (int i = 0; i < opsets->n; i++) lower_opset(&c, opsets->slots[i].key);
}
