// Assigns the files of a folder to inputs.
#include "compiler/cli/input_files.h"
#include <sys/stat.h>

const char *input_file(arena *a, const char *folder, int number) {
    return arena_printf(a, "%s/input_%d.pb", folder, number);
}

static bool exists(const input_files *f, int number) {
    struct stat s;
    return f->folder && stat(input_file(f->arena, f->folder, number), &s) == 0;
}

default_use input_files_use(input_files *f, const model_input *i) {
    if (i->index == 0) f->plain = f->number.n = 0;
    bool all = exists(f, i->nplain); // more files than required inputs
    int number = all ? i->index : f->plain;
    if (!i->has_default) f->plain++;
    else if (!all || !i->overridable || !exists(f, number)) return DEFAULT_IS_CONSTANT;
    VEC_PUSH(f->arena, &f->number, number);
    return DEFAULT_IS_DROPPED;
}
