// Cycles of instructions of the cores of microcontrollers, by their class. Those of Cortex-M0+, M3 and M4 are of Arm's technical
// reference manuals, where a load takes 2 cycles and a branch that is taken refills the pipeline. Cortex-M7 and M85
// issue two instructions at once where they can, which counts as a part of a cycle; Cortex-M55 takes two cycles for a
// vector of 128 bits, which overlap with the next instruction of another kind, and Cortex-M52 four. A RISC-V core without a
// known CPU is one with a pipeline of 3 to 5 stages, one load at a time and a multiplier.
#include "codegen/target/core_model.h"
#include <string.h>

// What an instruction does; OP_WHOLE: what others do with several registers at once, by the number of registers.
typedef enum op_class {
    OP_PLAIN,
    OP_LOAD,
    OP_STORE,
    OP_MUL,
    OP_MUL_ADD,
    OP_MUL_LONG,
    OP_DIV,
    OP_BRANCH,
    OP_CALL,
    OP_LOOP_END, // of a hardware loop
    OP_FLOAT,
    OP_FLOAT_MUL_ADD,
    OP_FLOAT_DIV,
    OP_VECTOR,
    OP_VECTOR_MEMORY,
    OP_LIST, // loads or stores a list of registers: cycles in addition to the cycles of each register
    OP_COUNT
} op_class;

typedef struct op_name {
    const char *begin;
    op_class class;
} op_name;

struct core_model {
    const char *cpu; // or the beginning of its name
    const op_name *names;
    double cycles[OP_COUNT];
};

// The first that a mnemonic begins with.
static const op_name arm_names[] = {
    {"push", OP_LIST},         {"pop", OP_LIST},          {"ldm", OP_LIST},
    {"stm", OP_LIST},          {"vpush", OP_LIST},        {"vpop", OP_LIST},
    {"vldm", OP_LIST},         {"vstm", OP_LIST},         {"ldrd", OP_LIST},
    {"strd", OP_LIST},         {"ldr", OP_LOAD},          {"str", OP_STORE},
    {"vldr", OP_LOAD},         {"vstr", OP_STORE},        {"smlal", OP_MUL_LONG},
    {"umlal", OP_MUL_LONG},    {"smull", OP_MUL_LONG},    {"umull", OP_MUL_LONG},
    {"mla", OP_MUL_ADD},       {"mls", OP_MUL_ADD},       {"smla", OP_MUL_ADD},
    {"smmla", OP_MUL_ADD},     {"mul", OP_MUL},           {"smul", OP_MUL},
    {"smmul", OP_MUL},         {"smuad", OP_MUL},         {"sdiv", OP_DIV},
    {"udiv", OP_DIV},          {"bl", OP_CALL},           {"bic", OP_PLAIN},
    {"bf", OP_PLAIN},          {"b", OP_BRANCH},          {"cbz", OP_BRANCH},
    {"cbnz", OP_BRANCH},       {"tb", OP_BRANCH},         {"le", OP_LOOP_END},
    {"wls", OP_BRANCH},        {"vdiv", OP_FLOAT_DIV},    {"vsqrt", OP_FLOAT_DIV},
    {"vml", OP_FLOAT_MUL_ADD}, {"vfm", OP_FLOAT_MUL_ADD}, {"vfn", OP_FLOAT_MUL_ADD},
    {"vnm", OP_FLOAT_MUL_ADD}, {"v", OP_FLOAT},           {"", OP_PLAIN}};
static const op_name riscv_names[] = {
    {"li", OP_PLAIN},        {"lui", OP_PLAIN},        {"la", OP_PLAIN},          {"l", OP_LOAD},
    {"flw", OP_LOAD},        {"fld", OP_LOAD},         {"sb", OP_STORE},          {"sh\t", OP_STORE},
    {"sw", OP_STORE},        {"fsw", OP_STORE},        {"fsd", OP_STORE},         {"mul", OP_MUL},
    {"div", OP_DIV},         {"rem", OP_DIV},          {"call", OP_CALL},         {"b", OP_BRANCH},
    {"j", OP_BRANCH},        {"ret", OP_BRANCH},       {"tail", OP_BRANCH},       {"fdiv", OP_FLOAT_DIV},
    {"fsqrt", OP_FLOAT_DIV}, {"fm", OP_FLOAT_MUL_ADD}, {"fnm", OP_FLOAT_MUL_ADD}, {"f", OP_FLOAT},
    {"", OP_PLAIN}};

// Columns: plain, load, store, mul, mul-add, long mul, div, branch, call, loop end, float, float mul-add, float div, vector,
// vector memory, list.
static const core_model models[] = {
    {"cortex-m0", arm_names, {1, 2, 2, 1, 1, 1, 1, 2, 3, 0, 1, 1, 1, 1, 1, 1}},
    {"cortex-m23", arm_names, {1, 2, 2, 1, 1, 1, 17, 2, 3, 0, 1, 1, 1, 1, 1, 1}},
    {"cortex-m33", arm_names, {1, 2, 1, 1, 1, 1, 7, 2.5, 3, 0, 1, 3, 14, 1, 1, 1}},
    {"cortex-m35p", arm_names, {1, 2, 1, 1, 1, 1, 7, 2.5, 3, 0, 1, 3, 14, 1, 1, 1}},
    {"cortex-m3", arm_names, {1, 2, 1, 1, 2, 4, 7, 3, 3, 0, 1, 1, 1, 1, 1, 1}},
    {"cortex-m4", arm_names, {1, 2, 1, 1, 1, 1, 7, 3, 3, 0, 1, 3, 14, 1, 1, 1}},
    {"cortex-m7", arm_names, {0.6, 0.8, 0.8, 1, 1, 1, 7, 1, 2, 0, 1, 1.5, 14, 1, 1, 0}},
    {"cortex-m52", arm_names, {0.8, 1, 1, 1, 1, 1, 7, 1.5, 2, 0, 1, 1.5, 14, 3, 3, 0}},
    {"cortex-m55", arm_names, {0.8, 1, 1, 1, 1, 1, 7, 1.5, 2, 0, 1, 1.5, 14, 1.5, 1.5, 0}},
    {"cortex-m85", arm_names, {0.5, 0.7, 0.7, 1, 1, 1, 7, 1, 2, 0, 1, 1, 10, 1, 1, 0}},
    {"generic-rv32", riscv_names, {1, 2, 1, 1, 1, 1, 34, 2, 2, 0, 2, 2, 20, 1, 1, 1}},
};
enum { MODELS = sizeof models / sizeof *models };

const core_model *core_model_of(const target *t) {
    for (int i = 0; t->cpu && i < MODELS; i++)
        if (!strncmp(t->cpu, models[i].cpu, strlen(models[i].cpu))) return &models[i];
    return t->triple && !strncmp(t->triple, "riscv32", strlen("riscv32")) ? &models[MODELS - 1] : NULL;
}

// The registers of "push {r4, r5, lr}"; two without braces: ldrd, strd.
static int listed(const char *line) {
    const char *at = strchr(line, '{');
    int n = at ? 1 : 2;
    for (; at && *at && *at != '}'; at++) n += *at == ',';
    return n;
}

static bool has_vectors(const char *line) {
    for (const char *s = line; (s = strchr(s, 'q')); s++)
        if (s[-1] != 'e' && s[1] >= '0' && s[1] <= '7') return true;
    return false;
}

static op_class class_of(const core_model *m, const char *line) {
    const op_name *name = m->names;
    while (strncmp(line, name->begin, strlen(name->begin)) != 0) name++;
    if (m->names != arm_names || *line != 'v' || name->class == OP_LIST || !has_vectors(line))
        return name->class;
    return name->class == OP_LOAD || name->class == OP_STORE ? OP_VECTOR_MEMORY : OP_VECTOR;
}

code_cost core_cost(const core_model *m, const char *line) {
    op_class class = class_of(m, line);
    double cycles = m->cycles[class];
    if (class == OP_LIST) cycles += listed(line) * m->cycles[OP_PLAIN];
    return (code_cost){1, cycles};
}
