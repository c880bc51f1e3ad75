// Look-ups in the generated operator table of the standard (tools/schema.py): operators by domain and name,
// versions by opset.
#include "ir/graph/op.h"
#include <limits.h>
#include <string.h>

#include "ir/graph/schema_data.inc"

enum { NOPS = sizeof ops / sizeof *ops, NOPSETS = sizeof opsets / sizeof *opsets };

static int compare_op(const schema_op *op, const char *domain, const char *name) {
    int by_domain = strcmp(op->domain, domain);
    return by_domain ? by_domain : strcmp(op->name, name);
}

const schema_op *schema_find(const char *domain, const char *name) {
    int low = 0, high = NOPS;
    while (low < high) {
        int middle = (low + high) / 2, order = compare_op(&ops[middle], domain, name);
        if (order == 0) return &ops[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

int schema_count(void) { return NOPS; }

const schema_op *schema_at(int i) { return &ops[i]; }

const schema_version *schema_for_opset(const schema_op *op, int opset) {
    const schema_version *found = NULL;
    for (int i = 0; i < op->nversions && op->versions[i].since <= opset; i++) found = &op->versions[i];
    return found;
}

int schema_newest_opset(const char *domain) {
    for (int i = 0; i < NOPSETS; i++)
        if (strcmp(opsets[i].domain, domain) == 0) return opsets[i].newest;
    return 0;
}
