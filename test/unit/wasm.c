// WebAssembly objects with data: what is written is read back, linked, and damaged objects are refused.
#include "codegen/object/wasm.h"
#include "codegen/llvm/llvm.h"
#include "codegen/target/targets.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 5000, ALIGN = 64 };

static void ignore(void *user, const diag_message *m) { (void)user, (void)m; }

static void fill(void *user, int64_t offset, void *to, int64_t n) {
    (void)user;
    for (int64_t i = 0; i < n; i++) ((unsigned char *)to)[i] = (unsigned char)((offset + i) * 7);
}

static void add_data(lmodule *m, const char *name, int64_t n, int align, bool exported) {
    ldata *d = ARENA_NEW(m->arena, ldata);
    *d = (ldata){.name = name, .bytes = n, .align = align, .produce = fill, .exported = exported};
    VEC_PUSH(m->arena, &m->data, d);
}

// int32_t byte_at(i): byte i of `weights`, or i itself if nothing is to refer to data.
static bytes build(arena *a, diag *d, lmodule **made, bool inside) {
    target *t = target_from_options(a, d, &(target_options){.triple = "wasm32", .fp = FP_DEFAULT});
    lmodule *m = *made = lmodule_new(a, "unit", t);
    add_data(m, "weights", BYTES, ALIGN, false);
    add_data(m, "table", 3, 1, true);
    lfunc *f = lfunc_new(m, "byte_at", lt(LK_I32, 1));
    f->exported = true;
    ins *i = lfunc_param(f, "i", lt(LK_I32, 1), LK_VOID, DT_I32, false);
    lbuild b = lbuild_new(f, t, d);
    if (inside) i = lb_conv(&b, L_ZEXT, LK_I32, lb_load(&b, lt(LK_I8, 1), lb_symbol(&b, "weights"), i, 0));
    lb_return(&b, i);
    return llvm_emit(m, EMIT_OBJECT, a, d);
}

static bytes written(arena *a, diag *d, const lmodule *m, bytes object) {
    text s = {.arena = a};
    sink to = sink_text(&s);
    wasm_write(a, d, object, m, &to);
    return (bytes){s.s, s.n};
}

static const object_symbol *find(const object_symbols *all, const char *name) {
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->at[i].name, name)) return &all->at[i];
    return NULL;
}

static void defines_data(void **state) {
    (void)state;
    for (int inside = 0; inside < 2; inside++) { // without references there is no undefined symbol to define
        arena *a = arena_new();
        diag d = {.arena = a, .sink = ignore};
        lmodule *m;
        bytes object = build(a, &d, &m, inside);
        object_symbols before = wasm_read_symbols(a, &d, object, "before"),
                       after = wasm_read_symbols(a, &d, written(a, &d, m, object), "after");
        const object_symbol *was = find(&before, "weights"), *is = find(&after, "weights"),
                            *table = find(&after, "table");
        assert_true(!was || !was->defined);
        assert_true(was || !inside);
        assert_true(is && is->defined && !is->local && table && table->defined);
        assert_true(find(&after, "byte_at")->defined);
        arena_destroy(a);
    }
}

static void links(void **state) {
    (void)state;
    arena *a = arena_new();
    diag d = {.arena = a, .sink = ignore};
    lmodule *m;
    bytes b = build(a, &d, &m, true);
    b = written(a, &d, m, b);
    char folder[] = "/tmp/onnxc-wasm-XXXXXX";
    assert_non_null(mkdtemp(folder));
    FILE *f = fopen(arena_printf(a, "%s/m.o", folder), "wb");
    assert_int_equal(fwrite(b.at, 1, b.n, f), b.n);
    fclose(f);
    int failed =
        system(arena_printf(a,
                            "cd %s && wasm-ld-19 --fatal-warnings --no-entry --export=byte_at --export=table "
                            "m.o -o m.wasm && node -e '"
                            "const x = new WebAssembly.Instance(new "
                            "WebAssembly.Module(require(\"fs\").readFileSync(\"m.wasm\"))).exports;"
                            "for (let i = 0; i < %d; i++) if (x.byte_at(i) !== i * 7 %% 256) process.exit(1);"
                            "if (new Uint8Array(x.memory.buffer)[x.table.value + 2] !== 14) process.exit(2)'",
                            folder, BYTES));
    assert_int_equal(system(arena_printf(a, "rm -r %s", folder)), 0);
    arena_destroy(a);
    assert_int_equal(failed, 0);
}

static bool can_be_written(const lmodule *m, const bytes *object) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = ignore};
    jmp_buf jump;
    volatile bool good = false;
    if (wasm_is_object(*object) && DIAG_TRY(&d, jump)) {
        written(a, &d, m, *object);
        good = true;
    }
    arena_destroy(a);
    return good;
}

// Cut, and with one byte changed: read or refused, never out of bounds.
static void damaged(void **state) {
    (void)state;
    arena *a = arena_new();
    diag d = {.arena = a, .sink = ignore};
    lmodule *m;
    bytes object = build(a, &d, &m, true);
    size_t refused = 0;
    for (size_t n = 0; n < object.n; n++) {
        char *cut = malloc(n + 1), *changed = malloc(object.n);
        memcpy(cut, object.at, n);
        memcpy(changed, object.at, object.n);
        changed[n] ^= (char)0xff;
        refused += !can_be_written(m, &(bytes){cut, n});
        can_be_written(m, &(bytes){changed, object.n});
        free(cut);
        free(changed);
    }
    assert_true(refused > object.n / 4);
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defines_data),
        cmocka_unit_test(links),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
