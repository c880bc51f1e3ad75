// --keep and --node. In: words that name nodes: a node's name, an operator, or /a regular expression/ searched in names.
// Out: settings of nodes.
#include "compiler/quantize/impl.h"
#include <float.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

const char *node_label(arena *a, const node *n) {
    if (n->loc && !n->loc->unnamed && n->loc->node && *n->loc->node) return n->loc->node;
    const value *v = node_out(n, 0);
    return v ? v->name : arena_printf(a, "%s #%d", n->op->name, n->id);
}

typedef struct pattern {
    const char *word;
    regex_t regex;
    bool is_regex;
} pattern;

static void free_regex(void *r) { regfree(r); }

static pattern *parse_pattern(const plan *p, const char *option, const char *word) {
    pattern *t = ARENA_NEW(p->arena, pattern);
    size_t n = strlen(word);
    *t = (pattern){.word = word, .is_regex = n > 2 && word[0] == '/' && word[n - 1] == '/'};
    if (!t->is_regex) return t;
    char why[200];
    int error = regcomp(&t->regex, arena_strndup(p->arena, word + 1, n - 2), REG_EXTENDED | REG_NOSUB);
    if (error) {
        regerror(error, &t->regex, why, sizeof why);
        diag_fatal(p->diag, NULL, "%s %s: the regular expression is not valid: %s", option, word, why);
    }
    arena_on_destroy(p->arena, free_regex, &t->regex);
    return t;
}

static bool matches(const plan *p, const pattern *t, const node *n) {
    const char *name = node_label(p->arena, n);
    if (t->is_regex) return regexec(&t->regex, name, 0, NULL, 0) == 0;
    return strcmp(t->word, name) == 0 || strcmp(t->word, n->op->name) == 0;
}

static _Noreturn void refuse_unmatched(const plan *p, const char *option, const char *word) {
    const char **names = ARENA_ARRAY(p->arena, const char *, 2 * p->nnodes + 1);
    int known = 0;
    for (int i = 0; i < p->nnodes; i++) {
        if (!node_of(p, i)) continue;
        names[known++] = node_label(p->arena, node_of(p, i));
        names[known++] = node_of(p, i)->op->name;
    }
    const char *near = nearest_word(p->arena, word, names, known);
    if (near) diag_hint(p->diag, "did you mean '%s'?", near);
    else
        diag_hint(p->diag,
                  "a word is the name of a node or an operator; /.../ is a regular expression for names");
    diag_fatal(p->diag, NULL, "%s %s: no node of the model has that name or operator", option, word);
}

// LO..HI; strtod would take the first point of "0..1".
static bool set_range(plan *p, const node *n, const char *s) {
    const char *points = strstr(s, "..");
    char *end;
    if (!points || points == s || !points[2]) return false;
    char *low = arena_strndup(p->arena, s, (size_t)(points - s));
    double lo = strtod(low, &end);
    if (*end) return false;
    double hi = strtod(points + 2, &end);
    if (*end || !(lo < hi) || lo > 0 || hi < 0 || !(hi - lo <= FLT_MAX)) return false;
    for (int i = 0; i < n->nout; i++) {
        if (!n->out[i]) continue;
        qvalue *v = &p->values[n->out[i]->id];
        v->fixed = true, v->lo = lo, v->hi = hi;
    }
    return true;
}

bool is_percentile(double p) { return p > 50 && p <= 100; }

static bool set_node(plan *p, const node *n, const char *s) {
    qnode *q = &p->nodes[n->id];
    if (strcmp(s, "float") == 0) q->kept = true, q->why = "--node";
    else if (strcmp(s, "per-tensor") == 0) q->per_tensor = true;
    else if (strcmp(s, "int8") == 0) q->activation = DT_I8;
    else if (strcmp(s, "int16") == 0) q->activation = DT_I16;
    else if (strcmp(s, "minmax") == 0 || strcmp(s, "entropy") == 0 || strcmp(s, "mse") == 0) q->ranges = s;
    else if (strncmp(s, "percentile:", 11) == 0)
        return q->ranges = "percentile", parse_real(s + 11, &q->percentile) && is_percentile(q->percentile);
    else return set_range(p, n, s);
    return true;
}

static int for_matches(plan *p, const pattern *t, const char *setting, const char *whole) {
    int found = 0;
    for (int i = 0; i < p->nnodes; i++) {
        const node *n = node_of(p, i);
        if (!n || !matches(p, t, n)) continue;
        found++;
        if (setting && !set_node(p, n, setting)) {
            diag_hint(p->diag,
                      "settings are float, int8, int16, per-tensor, minmax, percentile:P, entropy, mse, and "
                      "LO..HI, a range of the node's output that includes 0");
            diag_fatal(p->diag, NULL, "--node %s: '%s' is not a setting of a node", whole, setting);
        }
        if (!setting) p->nodes[n->id].kept = true, p->nodes[n->id].why = "--keep";
    }
    return found;
}

void apply_patterns(plan *p) {
    for (int i = 0; i < p->own->keep.n; i++) {
        const char *word = p->own->keep.at[i];
        if (!for_matches(p, parse_pattern(p, "--keep", word), NULL, word))
            refuse_unmatched(p, "--keep", word);
    }
    for (int i = 0; i < p->own->node.n; i++) {
        const char *s = p->own->node.at[i], *equals = strrchr(s, '=');
        if (!equals) {
            diag_hint(p->diag, "the form is NODE=SETTING, for example --node conv1=float");
            diag_fatal(p->diag, NULL, "--node %s: no setting is given", s);
        }
        const char *word = arena_strndup(p->arena, s, (size_t)(equals - s));
        if (!for_matches(p, parse_pattern(p, "--node", word), equals + 1, s))
            refuse_unmatched(p, "--node", word);
    }
}
