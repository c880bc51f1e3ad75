// In: an attribute. Out: its value as text.
#include "compiler/report/attr_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_float(text *t, const char *before, float v) {
    char s[REAL_SIZE];
    real_text(s, (double)v, true);
    text_printf(t, "%s%s", before, s);
}

const char *attr_value_text(arena *a, const attr *t) {
    text s = {.arena = a};
    switch (t->kind) {
    case ATTR_FLOAT: add_float(&s, "", t->f); break;
    case ATTR_INT: text_printf(&s, "%lld", (long long)t->i); break;
    case ATTR_STRING: text_add_quoted(&s, t->s, t->size); break;
    case ATTR_FLOATS:
        for (int i = 0; i < t->n; i++) add_float(&s, i ? ", " : "[", t->floats[i]);
        text_add(&s, t->n ? "]" : "[]");
        break;
    case ATTR_INTS:
        for (int i = 0; i < t->n; i++) text_printf(&s, "%s%lld", i ? ", " : "[", (long long)t->ints[i]);
        text_add(&s, t->n ? "]" : "[]");
        break;
    case ATTR_STRINGS:
        for (int i = 0; i < t->n; i++) {
            text_add(&s, i ? ", " : "[");
            text_add_quoted(&s, t->strings[i], strlen(t->strings[i]));
        }
        text_add(&s, t->n ? "]" : "[]");
        break;
    case ATTR_TENSOR:
        text_printf(&s, "%s[", dtype_name(t->tensor->elem));
        for (int j = 0; j < t->tensor->rank; j++)
            text_printf(&s, "%s%lld", j ? ", " : "", (long long)t->tensor->dims[j]);
        text_add(&s, "]");
        break;
    case ATTR_GRAPH: text_printf(&s, "graph '%s'", safe_text(a, t->graph->name)); break;
    case ATTR_GRAPHS: text_printf(&s, "%d graphs", t->n); break;
    case ATTR_TYPE: text_add(&s, type_text(a, t->type)); break;
    case ATTR_NONE:
    case ATTR_TENSORS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: text_add(&s, "..."); break;
    }
    return text_str(&s);
}
