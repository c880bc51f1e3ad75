// A plugin of QEMU's user emulation (7.2 and later) for RISC-V: at the end it prints how many instructions a program has
// executed, and how many of them were multiply-adds of vectors. QEMU's header is not in Debian's packages, hence the
// declarations.
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD };
typedef void translated_fn(plugin_id id, struct qemu_plugin_tb *tb);
typedef void exit_fn(plugin_id id, void *user);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, translated_fn *f);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *counter, uint64_t n);
void qemu_plugin_register_atexit_cb(plugin_id id, exit_fn *f, void *user);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *x);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *x);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
int qemu_plugin_install(plugin_id id, const struct qemu_info_t *info, int argc, char **argv);

static uint64_t all, multiply_adds;

// vmadd, vmacc, vwmacc and its variants, vfmadd, vfmacc, vfwmacc.
static int is_multiply_add(const struct qemu_plugin_insn *x) {
    uint32_t code;
    if (qemu_plugin_insn_size(x) != sizeof code) return 0;
    memcpy(&code, qemu_plugin_insn_data(x), sizeof code);
    unsigned form = code >> 12 & 7, what = code >> 26;
    if ((code & 0x7f) != 0x57) return 0;
    if (form == 1 || form == 5) return what == 0x28 || what == 0x2c || what == 0x3c;
    return (form == 2 || form == 6) && (what == 0x29 || what == 0x2d || what >= 0x3c);
}

static void count(plugin_id id, struct qemu_plugin_tb *tb) {
    size_t n = qemu_plugin_tb_n_insns(tb);
    uint64_t found = 0;
    (void)id;
    for (size_t i = 0; i < n; i++) found += (uint64_t)is_multiply_add(qemu_plugin_tb_get_insn(tb, i));
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &all, n);
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &multiply_adds, found);
}

static void show(plugin_id id, void *user) {
    (void)id, (void)user;
    fprintf(stderr, "instructions %" PRIu64 "\nmultiply-adds %" PRIu64 "\n", all, multiply_adds);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const struct qemu_info_t *info,
                                                               int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count);
    qemu_plugin_register_atexit_cb(id, show, NULL);
    return 0;
}
