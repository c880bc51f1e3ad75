// In: an object with string tables. Out: the same object; equal names share an entry, and the end of a name serves as another:
// ".rela.text.f" is also ".text.f" and "f". Objects of many kernels are a tenth smaller.
#include "codegen/object/elf_impl.h"
#include <stdlib.h>
#include <string.h>

typedef struct name {
    const char *s;
    size_t n;
    uint32_t *at; // where its offset is stored
} name;

typedef VEC(name) name_list;

static void add_name(const elf_object *o, name_list *all, int table, uint32_t *at) {
    const char *s = elf_string_at(o, table, *at);
    VEC_PUSH(o->arena, all, ((name){s, strlen(s), at}));
}

// By their ends, so that a name follows the names that end with it.
static int compare_ends(const void *a, const void *b) {
    const name *x = a, *y = b;
    size_t common = x->n < y->n ? x->n : y->n;
    for (size_t i = 1; i <= common; i++) {
        int xc = (unsigned char)x->s[x->n - i], yc = (unsigned char)y->s[y->n - i];
        if (xc != yc) return xc - yc;
    }
    return (x->n < y->n) - (x->n > y->n);
}

static bool ends_with(const name *x, const name *end) {
    return x->n >= end->n && memcmp(x->s + x->n - end->n, end->s, end->n) == 0;
}

static void write_table(elf_object *o, int table, name_list *all) {
    text t = {.arena = o->arena};
    name last = {.s = ""};
    text_addn(&t, "", 1);
    if (all->n) qsort(all->at, (size_t)all->n, sizeof *all->at, compare_ends);
    for (int i = 0; i < all->n; i++) {
        const name *own = &all->at[i];
        if (!ends_with(&last, own)) {
            text_addn(&t, own->s, own->n + 1);
            last = *own;
        }
        *own->at = (uint32_t)(t.n - 1 - own->n);
    }
    elf_set_content(o, table, (bytes){t.s, t.n});
}

void elf_share_names(elf_object *o) {
    name_list of_sections = {0}, of_symbols = {0};
    bool one = o->strtab == o->shstrtab;
    for (int i = 0; i < o->sections.n; i++)
        add_name(o, &of_sections, o->shstrtab, &o->sections.at[i].sh_name);
    for (int i = 0; i < o->symbols.n; i++)
        add_name(o, one ? &of_sections : &of_symbols, o->strtab, &o->symbols.at[i].st_name);
    write_table(o, o->shstrtab, &of_sections);
    if (!one) write_table(o, o->strtab, &of_symbols);
}
