// States: outputs in the memory of an input, for the next call. In: a program with p->state. Out: one in
// which no step reads what is overwritten.
#include "passes/memory/memory_plan.h"
#include <string.h>

typedef struct state_search {
    const buffer *in, *out;
    bool reads, writes, nested;
} state_search;

static void note_buffer(void *user, buffer *b) {
    state_search *s = user;
    s->reads |= buffer_root(b) == s->in;
    s->writes |= buffer_root(b) == s->out;
}

static void note_nested(void *user, region *r, step *s) {
    (void)r;
    step_buffers(s, note_buffer, user);
}

// In place when every read of the input comes before the first use of the output, or in the kernel that makes
// it.
static bool is_safe(program *p, const buffer *in, const buffer *out) {
    bool written = false;
    for (int i = 0; i < p->main->steps.n; i++) {
        step *s = p->main->steps.at[i];
        state_search found = {.in = in, .out = out};
        step_buffers(s, note_buffer, &found);
        for (int k = 0; k < 2; k++) {
            state_search inner = {.in = in, .out = out};
            program part = *p;
            part.main = s->body[k];
            if (s->body[k]) program_walk(&part, note_nested, &inner);
            if (inner.writes) return false;
            found.reads |= inner.reads;
        }
        if (found.reads && written) return false;
        if (found.reads && found.writes && (s->kind != STEP_KERNEL || !writes_in_place(s->kernel, in, out)))
            return false;
        written |= found.writes;
    }
    return true;
}

// The buffer that all steps know becomes the temporary, a new one the output.
static void copy_at_end(program *p, int output) {
    buffer *old = p->outputs.at[output];
    buffer *b = program_buffer(p, old->name, BUF_OUTPUT, old->dtype, old->rank, old->dims);
    b->io = old->io, b->value = old->value, b->labels = old->labels;
    old->role = BUF_TEMP;
    p->outputs.at[output] = b;
    step *s = step_new(p, p->main, STEP_COPY, NULL);
    s->buffer = b, s->from = old;
}

void place_states(program *p) {
    for (int j = 0; p->state && j < p->outputs.n; j++)
        if (p->state[j] && !is_safe(p, p->inputs.at[p->state[j] - 1], p->outputs.at[j])) copy_at_end(p, j);
}
