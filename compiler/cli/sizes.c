// What a compiled model takes in the memories of a device. In: a model. Out: bytes of code, constants and data.
#include "codegen/object/elf.h"
#include "compiler/cli/command.h"
#include "compiler/output/output.h"
#include <elf.h>

typedef struct sizes {
    uint64_t code, constants, data, zeros;
} sizes;

static bool is_loaded(const elf_section *x) { return (x->flags & SHF_ALLOC) && x->type != SHT_NOTE; }

static void add_object(arena *a, diag *d, sizes *to, bytes object) {
    const elf_file *f = elf_read(a, d, object, "the compiled model");
    for (int i = 0; i < f->sections.n; i++) {
        const elf_section *x = &f->sections.at[i];
        if (!is_loaded(x)) continue;
        if (x->flags & SHF_EXECINSTR) to->code += x->size;
        else if (x->type == SHT_NOBITS) to->zeros += x->size;
        else if (x->flags & SHF_WRITE) to->data += x->size;
        else to->constants += x->size;
    }
}

// Code for an operating system needs functions of the runtime library too; freestanding code has all that it needs.
static sizes measure(session *s, const source *from) {
    options *o = ARENA_NEW(s->arena, options);
    *o = s->options;
    o->emit = "obj";
    o->output = o->header = o->depfile = o->print_after = o->stop_after = NULL;
    bytes made;
    output_compile(session_pipeline(s, o), from, &made);
    sizes x = {0};
    if (elf_is_object(made)) add_object(s->arena, &s->diag, &x, made);
    return x;
}

const char *sizes_text(session *s, const source *from) {
    sizes x = measure(s, from);
    text t = {.arena = s->arena};
    text_printf(&t, "flash: %llu bytes; %llu of code, %llu of constants",
                (unsigned long long)(x.code + x.constants + x.data), (unsigned long long)x.code,
                (unsigned long long)x.constants);
    if (x.data) text_printf(&t, ", %llu of initial values", (unsigned long long)x.data);
    text_printf(&t, "\nRAM: %llu bytes of variables, besides the workspace and the stack\n",
                (unsigned long long)(x.data + x.zeros));
    return text_str(&t);
}
