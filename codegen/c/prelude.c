// In: names of snippets, and text that refers to snippets as ox_NAME. Out: the snippets needed, in the order
// of the prelude's files, in which each snippet precedes the snippets that refer to it.
#include "codegen/c/prelude.h"
#include <ctype.h>
#include <string.h>

static bool refers_to(const char *text, const char *name) {
    size_t n = strlen(name);
    for (const char *s = text; (s = strstr(s, "ox_")); s++) {
        unsigned char end = (unsigned char)(strncmp(s + 3, name, n) ? '_' : s[3 + n]);
        if (!isalnum(end) && end != '_') return true;
    }
    return false;
}

const prelude_snippet *prelude_find(const char *name) {
    for (const prelude_snippet *s = prelude_snippets; s->name; s++)
        if (!strcmp(s->name, name)) return s;
    return NULL;
}

static void add(text *t, bool cuda, const char *prefix, const char *s) {
    static const char word[] = "INLINE", stem[] = "ox_";
    for (; *s; s++)
        if (!strncmp(s, stem, sizeof stem - 1)) {
            text_add(t, prefix);
            s += sizeof stem - 2;
        } else if (!strncmp(s, word, sizeof word - 1)) {
            text_add(t, cuda ? "static __device__ __forceinline__" : "static inline");
            s += sizeof word - 2;
        } else text_addn(t, s, 1);
}

const char *prelude_text(arena *a, bool cuda, const char *prefix, const map *names, const char *own) {
    int n = 0;
    while (prelude_snippets[n].name) n++;
    const char **chosen = ARENA_ARRAY(a, const char *, n);
    for (int i = n - 1; i >= 0; i--) {
        const prelude_snippet *s = &prelude_snippets[i];
        bool wanted = !names || map_get(names, s->name) || refers_to(own, s->name);
        for (int k = i + 1; k < n && !wanted; k++) wanted = chosen[k] && refers_to(chosen[k], s->name);
        if (wanted) chosen[i] = cuda && s->cuda ? s->cuda : s->c;
    }
    text t = {.arena = a};
    for (int i = 0; i < n; i++)
        if (chosen[i]) add(&t, cuda, prefix, arena_printf(a, "%s\n", chosen[i]));
    add(&t, cuda, prefix, own);
    return text_str(&t);
}
