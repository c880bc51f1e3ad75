// What a compiled model takes in the memories of a device. In: a model. Out: bytes of code, constants, data and stack.
#include "codegen/host/host.h"
#include "codegen/object/elf.h"
#include "compiler/cli/command.h"
#include "compiler/output/output.h"
#include "compiler/report/report.h"
#include <elf.h>

static bool is_loaded(const elf_section *x) { return (x->flags & SHF_ALLOC) && x->type != SHT_NOTE; }

static void add_object(arena *a, diag *d, footprint *to, bytes object) {
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
const footprint *sizes_measure(session *s, const source *from) {
    options *o = ARENA_NEW(s->arena, options);
    *o = s->options;
    o->emit = "obj";
    o->output = o->header = o->depfile = o->print_after = o->stop_after = NULL;
    bytes made;
    pipeline *p = session_pipeline(s, o);
    output_compile(p, from, &made);
    footprint *x = ARENA_NEW(s->arena, footprint);
    if (elf_is_object(made)) add_object(s->arena, &s->diag, x, made);
    if (p->build) x->stack = p->build->stack, x->stack_note = p->build->stack_note, x->build = p->build;
    return x;
}
