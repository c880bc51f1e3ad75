// The promise of --real-time, and what machine code adds to what the build knows of it.
#include "codegen/host/real_time.h"
#include "codegen/host/host.h"
#include "codegen/object/object.h"
#include "compiler/driver/pipeline_impl.h"
#include <string.h>

void check_real_time(pipeline *p) {
    if (!p->options->real_time || !p->build) return;
    const real_time *r = p->build->real_time;
    for (int i = 0; i < r->faults.n; i++) diag_error(p->diag, NULL, "--real-time: %s", r->faults.at[i]);
    diag_check(p->diag);
}

// Undefined symbols of the object that its module does not declare are functions that the code generator calls.
void note_object_calls(pipeline *p, bytes object) {
    map known = {.arena = p->arena};
    for (int i = 0; i < p->loops->funcs.n; i++) map_put(&known, p->loops->funcs.at[i]->name, p->loops);
    for (int i = 0; i < p->loops->data.n; i++) map_put(&known, p->loops->data.at[i]->name, p->loops);
    object_symbols all = object_read_symbols(p->arena, p->diag, object, "the object");
    for (int i = 0; i < all.n; i++) {
        const char *name = all.at[i].name;
        if (p->target->format == OBJECT_MACHO && name[0] == '_') name++;
        if (!all.at[i].defined && *name && !map_get(&known, name))
            real_time_add_symbol(p->arena, p->build->real_time, name);
    }
    check_real_time(p);
}
