// Tuned choices: read from --tune-db or measured, used by all targets, written back. In: a pipeline whose
// targets are set. Out: targets with a table of choices.
#include "codegen/host/host.h"
#include "compiler/driver/pipeline_impl.h"
#include "compiler/driver/tune_db.h"
#include "ir/kernel/program.h"
#include <sys/stat.h>

static bool has_entries(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && s.st_size > 0;
}

static void choose(pipeline *p, const choice_table *t) {
    for (int j = 0; j < p->variants.n; j++) {
        target *own = ARENA_NEW(p->arena, target);
        *own = *p->variants.at[j];
        own->choices = t;
        p->variants.at[j] = own;
    }
    p->target = (target *)p->variants.at[0];
}

void use_tuned_choices(pipeline *p, goal g) {
    const options *o = p->options;
    bool measures = o->tune && g == GOAL_LOOPS;
    if (g < GOAL_PROGRAM || (!measures && !o->tune_db)) return;
    if (measures && !p->hooks.tune) diag_defect(p->diag, NULL, "--tune, but nothing measures");
    choice_table *t = choice_table_new(p->arena);
    if (o->tune_db && (!measures || has_entries(o->tune_db))) tune_db_read(t, p->diag, o->tune_db);
    if (measures) p->hooks.tune(p, t);
    if (measures && o->tune_db) tune_db_write(t, p->diag, o->tune_db);
    if (o->tune_db) VEC_PUSH(p->arena, &p->files, arena_strdup(p->arena, o->tune_db));
    choose(p, t);
}

static void mark_used(const target *t, const program *p) {
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->kind == STEP_KERNEL) choices_of(t, steps.at[j].s->kernel);
}

const char *tuned_choices_text(pipeline *p) {
    const choice_table *t = p->target->choices;
    if (!t) return "";
    choice_table *own = choice_table_new(p->arena);
    for (int i = 0; i < p->variants.n; i++) {
        mark_used(p->variants.at[i], p->program);
        for (int j = 0; j < p->versions.n; j++) mark_used(p->variants.at[i], p->versions.at[j].program);
    }
    for (int j = 0; j < t->entries.n; j++) {
        choice_entry x = *(const choice_entry *)t->entries.slots[j].value;
        x.gain = 0, x.about = NULL; // neither affects the code
        if (x.used) choice_table_put(own, &x);
    }
    return own->entries.n ? tune_db_text(p->arena, own) : "";
}

void report_tuned_choices(pipeline *p) {
    const choice_table *t = p->target ? p->target->choices : NULL;
    int used = 0;
    if (!t || !p->options->tune_db) return;
    for (int j = 0; j < t->entries.n; j++) used += ((const choice_entry *)t->entries.slots[j].value)->used;
    diag_remark(p->diag, NULL,
                "--tune-db '%s': %d entries used; %d are for other kernels or targets, %d for other versions "
                "of the schedules",
                p->options->tune_db, used, t->entries.n - used, t->stale);
}
