// In: an object. Out: what its format's file reads or writes.
#include "codegen/object/object.h"
#include "codegen/object/coff.h"
#include "codegen/object/elf.h"
#include "codegen/object/macho.h"
#include "codegen/object/wasm.h"
#include "compiler/base/integers.h"
#include "ir/loops/weights.h"

bool object_is_one(bytes file) {
    return elf_is_object(file) || coff_is_object(file) || macho_is_object(file) || wasm_is_object(file);
}

object_symbols object_read_symbols(arena *a, diag *d, bytes file, const char *what) {
    object_symbols found = {0};
    if (coff_is_object(file)) return coff_read_symbols(a, d, file, what);
    if (macho_is_object(file)) return macho_read_symbols(a, d, file, what);
    if (wasm_is_object(file)) return wasm_read_symbols(a, d, file, what);
    const elf_file *f = elf_read(a, d, file, what);
    for (int i = 0; i < f->symbols.n; i++) {
        const elf_symbol *s = &f->symbols.at[i];
        VEC_PUSH(a, &found, (object_symbol){s->name, s->section != NULL, s->local, s->weak});
    }
    return found;
}

void object_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to) {
    if (coff_is_object(object)) coff_write(a, d, object, m, to);
    else if (macho_is_object(object)) macho_write(a, d, object, m, to);
    else if (wasm_is_object(object)) wasm_write(a, d, object, m, to);
    else elf_write(a, d, object, m, to);
}

static void write_zeros(const sink *to, uint64_t n) {
    static const char zeros[64];
    for (; n > sizeof zeros; n -= sizeof zeros) sink_addn(to, zeros, sizeof zeros);
    sink_addn(to, zeros, (size_t)n);
}

void object_write_data(arena *a, const lmodule *m, uint64_t padding, const sink *to) {
    int64_t at = 0;
    write_zeros(to, padding);
    for (int i = 0; i < m->data.n; i++) {
        const ldata *d = m->data.at[i];
        int64_t begin = round_up(at, d->align > 0 ? d->align : 1);
        write_zeros(to, (uint64_t)(begin - at));
        weights_write(a, d, to);
        at = begin + d->bytes;
    }
}
