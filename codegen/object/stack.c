// In: an object. Out: the deepest stack of a call. A depth-first search over the graph of calls: nodes are
// functions with their frames, edges are relocations in the code of one function that refer to another.
// Functions outside of the object belong to the C library and to the compiler's support library.
#include "codegen/object/stack.h"
#include "codegen/object/elf_impl.h"
#include <stdlib.h>
#include <string.h>

// What the processor adds to the frames that the code generator reports.
typedef struct machine {
    int number;
    int call; // bytes that a call instruction pushes
    int jump; // type of the relocations of tail calls, which release the caller's frame first; 0: none
} machine;

static const machine machines[] = {
    {EM_ARM, 0, R_ARM_THM_JUMP24}, {EM_AARCH64, 0, R_AARCH64_JUMP26}, {EM_RISCV, 0, 0}, {EM_X86_64, 8, 0}};

// Stack bytes for functions outside of the object: more than the functions of newlib, glibc, libgcc and compiler-rt use.
enum { COPY_STACK = 64, SUPPORT_STACK = 192, OUTLINED_STACK = 32 };

typedef struct call {
    int to; // function
    bool jump;
} call;
typedef enum visit_state { NOT_VISITED, IN_PROGRESS, VISITED } visit_state;
typedef struct function {
    const char *name;
    int section; // 0: outside of the object
    uint64_t begin, end;
    bool exported, known, indirect;
    int64_t frame;
    VEC(call) calls;
    int next;
    visit_state state;
    int64_t depth, library; // with the frames of what it calls
} function;

typedef struct stack_graph {
    arena *arena;
    elf_object o;
    const machine *machine;
    const char *hook;
    VEC(function) all;
    int *of_symbol; // function by number of the symbol, from 1
    int *first;     // by section: its first function, from 1; the others follow by `next`
    map by_name;    // of functions in the object, from 1
    stack_use result;
} stack_graph;

// ---------------------------------------------------------------- frames in a section
// "NAME BYTES INDIRECT" in each line.
bytes stack_keep_frames(arena *a, diag *d, bytes object, const stack_frames *frames) {
    elf_object o = elf_object_read(a, d, object, "the object");
    text lines = {.arena = a}, names = {.arena = a};
    for (int i = 0; i < frames->n; i++)
        text_printf(&lines, "%s %lld %d\n", frames->at[i].name, (long long)frames->at[i].bytes,
                    frames->at[i].indirect);
    text_addn(&names, o.contents.at[o.shstrtab].at, o.contents.at[o.shstrtab].n);
    Elf64_Shdr s = {.sh_name = elf_add_string(&o, &names, STACK_FRAMES_SECTION),
                    .sh_type = SHT_PROGBITS,
                    .sh_addralign = 1,
                    .sh_size = lines.n};
    VEC_PUSH(a, &o.sections, s);
    VEC_PUSH(a, &o.contents, ((bytes){lines.s, lines.n}));
    elf_set_content(&o, o.shstrtab, (bytes){names.s, names.n});
    elf_lay_out(&o);
    text t = {.arena = a};
    sink to = sink_text(&t);
    elf_object_write(&o, NULL, &to);
    return (bytes){t.s, t.n};
}

void stack_drop_frames(struct elf_object *o) {
    for (int i = 1; i < o->sections.n; i++) {
        if (strcmp(elf_section_name(o, i), STACK_FRAMES_SECTION) != 0) continue;
        o->sections.at[i].sh_type = SHT_NULL;
        elf_set_content(o, i, (bytes){0});
    }
}

static void set_frame(stack_graph *g, const char *name, long long frame, bool indirect) {
    intptr_t i = (intptr_t)map_get(&g->by_name, name);
    if (!i) return;
    function *f = &g->all.at[i - 1];
    f->known = true, f->frame = frame, f->indirect = indirect;
}

static void read_frames(stack_graph *g) {
    for (int i = 1; i < g->o.sections.n; i++) {
        if (strcmp(elf_section_name(&g->o, i), STACK_FRAMES_SECTION) != 0) continue;
        const char *at = arena_strndup(g->arena, g->o.contents.at[i].at, g->o.contents.at[i].n);
        for (; *at; at = strchr(at, '\n') + 1) {
            const char *space = strchr(at, ' ');
            char *end;
            long long frame = strtoll(space, &end, 10);
            set_frame(g, arena_strndup(g->arena, at, (size_t)(space - at)), frame, end[1] == '1');
        }
    }
}

// ---------------------------------------------------------------- functions and calls
static bool is_outlined(const char *name) { return strncmp(name, "OUTLINED_FUNCTION_", 18) == 0; }

// Symbols of functions, and undefined symbols that are not data, which code may call. Aliases are separate functions.
static void find_functions(stack_graph *g, const lmodule *m) {
    elf_object *o = &g->o;
    map data = {.arena = g->arena};
    for (int i = 0; i < m->data.n; i++) map_put(&data, m->data.at[i]->name, (void *)m->data.at[i]);
    g->of_symbol = ARENA_ARRAY(g->arena, int, o->symbols.n + 1);
    g->first = ARENA_ARRAY(g->arena, int, o->sections.n + 1);
    for (int i = 1; i < o->symbols.n; i++) {
        const Elf64_Sym *s = &o->symbols.at[i];
        bool outside = s->st_shndx == SHN_UNDEF, code = ELF64_ST_TYPE(s->st_info) == STT_FUNC;
        if (!outside && (!code || s->st_shndx >= o->sections.n)) continue;
        function f = {.name = elf_string_at(o, o->strtab, s->st_name), .section = s->st_shndx};
        if (outside && map_get(&data, f.name)) continue;
        f.begin = s->st_value & ~(uint64_t)(g->machine->number == EM_ARM ? 1 : 0); // the bit of Thumb
        f.end = f.begin + s->st_size;
        f.exported = code && !outside && ELF64_ST_BIND(s->st_info) == STB_GLOBAL &&
                     ELF64_ST_VISIBILITY(s->st_other) == STV_DEFAULT;
        if (is_outlined(f.name)) f.known = true, f.frame = OUTLINED_STACK;
        f.next = g->first[f.section];
        VEC_PUSH(g->arena, &g->all, f);
        g->of_symbol[i] = g->first[f.section] = g->all.n;
        if (!outside) map_put(&g->by_name, f.name, (void *)(intptr_t)g->all.n);
    }
}

static void add_call(stack_graph *g, int section, uint64_t at, int to, bool jump) {
    for (int i = g->first[section]; i; i = g->all.at[i - 1].next) {
        function *f = &g->all.at[i - 1];
        if (at < f->begin || at >= f->end) continue;
        bool there = false;
        for (int k = 0; k < f->calls.n && !there; k++)
            there = f->calls.at[k].to == to && f->calls.at[k].jump == jump;
        if (!there) VEC_PUSH(g->arena, &f->calls, ((call){to, jump}));
    }
}

// A relocation against a section may mean any of its functions.
static void add_reference(stack_graph *g, int section, uint64_t at, uint64_t symbol, bool jump) {
    if (symbol >= (uint64_t)g->o.symbols.n)
        elf_broken(&g->o, "it refers to a symbol that it does not contain");
    const Elf64_Sym *s = &g->o.symbols.at[symbol];
    if (g->of_symbol[symbol]) add_call(g, section, at, g->of_symbol[symbol] - 1, jump);
    if (ELF64_ST_TYPE(s->st_info) != STT_SECTION || s->st_shndx >= g->o.sections.n) return;
    for (int i = g->first[s->st_shndx]; i; i = g->all.at[i - 1].next) add_call(g, section, at, i - 1, jump);
}

static void read_calls(stack_graph *g, int i) {
    const Elf64_Shdr *s = &g->o.sections.at[i];
    bytes content = g->o.contents.at[i];
    size_t word = g->o.wide ? 8 : 4;
    for (size_t at = 0; s->sh_entsize >= 2 * word && at + s->sh_entsize <= content.n; at += s->sh_entsize) {
        uint64_t offset = 0, info = 0; // little-endian
        memcpy(&offset, (const char *)content.at + at, word);
        memcpy(&info, (const char *)content.at + at + word, word);
        uint64_t symbol = g->o.wide ? ELF64_R_SYM(info) : ELF32_R_SYM(info);
        int type = (int)(g->o.wide ? ELF64_R_TYPE(info) : ELF32_R_TYPE(info));
        add_reference(g, (int)s->sh_info, offset, symbol, g->machine->jump && type == g->machine->jump);
    }
}

static void find_calls(stack_graph *g) {
    for (int i = 1; i < g->o.sections.n; i++) {
        const Elf64_Shdr *s = &g->o.sections.at[i];
        if ((s->sh_type != SHT_REL && s->sh_type != SHT_RELA) || s->sh_info >= (uint32_t)g->o.sections.n)
            continue;
        if (g->o.sections.at[s->sh_info].sh_flags & SHF_EXECINSTR) read_calls(g, i);
    }
}

// ---------------------------------------------------------------- depth
static void unknown(stack_graph *g, const char *why) {
    if (!g->result.why) g->result.why = why;
}

static bool is_one_of(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static void enter_outside(stack_graph *g, function *f) {
    static const char *const copies[] = {"memcpy", "memmove", "memset", "memcmp"};
    if (is_one_of(f->name, copies, 4)) f->depth = f->library = COPY_STACK;
    else if (strncmp(f->name, "__", 2) == 0) f->depth = f->library = SUPPORT_STACK;
    else if (g->hook && strcmp(f->name, g->hook) == 0) g->result.others = g->hook;
    else unknown(g, arena_printf(g->arena, "the object calls %s", f->name));
}

static void visit(stack_graph *g, int i) {
    function *f = &g->all.at[i];
    if (f->state == IN_PROGRESS) unknown(g, arena_printf(g->arena, "%s is recursive", f->name));
    if (f->state != NOT_VISITED) return;
    f->state = IN_PROGRESS;
    f->depth = f->frame > 0 ? f->frame : 0;
    if (!f->section) enter_outside(g, f);
    else if (!f->known || f->frame < 0)
        unknown(g, arena_printf(g->arena, "the frame of %s is not known", f->name));
    if (f->indirect) unknown(g, arena_printf(g->arena, "%s calls through a pointer", f->name));
    int64_t own = f->frame + g->machine->call;
    for (int k = 0; k < f->calls.n; k++) {
        const function *to = &g->all.at[f->calls.at[k].to];
        visit(g, f->calls.at[k].to);
        int64_t depth = to->depth + (f->calls.at[k].jump ? 0 : own);
        if (depth > f->depth) f->depth = depth, f->library = to->library;
    }
    f->state = VISITED;
}

stack_use stack_of_object(arena *a, diag *d, bytes object, const lmodule *m, const char *hook) {
    stack_graph g = {.arena = a, .hook = hook, .by_name.arena = a, .result.bytes = -1};
    if (!elf_is_object(object)) return (stack_use){-1, "it is told for ELF objects only", 0, NULL};
    g.o = elf_object_read(a, d, object, "the object");
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (machines[i].number == g.o.header.e_machine) g.machine = &machines[i];
    if (!g.machine) return (stack_use){-1, "it is not told for this processor", 0, NULL};
    find_functions(&g, m);
    read_frames(&g);
    find_calls(&g);
    int64_t deepest = 0;
    for (int i = 0; i < g.all.n; i++) {
        if (!g.all.at[i].exported) continue;
        visit(&g, i);
        int64_t depth = g.all.at[i].depth + g.machine->call;
        if (depth > deepest) deepest = depth, g.result.library = g.all.at[i].library;
    }
    if (!g.result.why) g.result.bytes = deepest;
    return g.result;
}
