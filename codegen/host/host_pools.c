// Memory pools. A pool in a section is memory of the object. Callers pass the others as members of NAME_in, or one after
// the other in the workspace of the generic entry; functions with flat arrays get an array of their addresses as workspace.
#include "codegen/host/host_impl.h"

bool passes_pools(const host_builder *a) { return a->io->callers > 0; }

// What the programs of all versions need.
void measure_pools(host_builder *a) {
    int64_t callers = 0;
    for (int k = 0; k < a->io->pools.n; k++) {
        io_pool *x = &a->io->pools.at[k];
        for (int j = 0; j < a->parts.n; j++) {
            int64_t bytes = a->parts.at[j]->plan.pool_bytes[k];
            if (bytes > x->bytes) x->bytes = bytes;
        }
        if (!x->pool->section) callers += x->bytes;
    }
    if (a->io->pools.n) a->plan.workspace = dim_const(a->p->dims, callers);
}

static ins *pool_member(host *h, const io_pool *x) {
    return lb_field(&h->b, lt_ptr(), h->in, x->name,
                    interface_pointer_offset(h->t, h->builder->io->in_int64s, x->pointer_slot));
}

void check_pool_members(host *h) {
    lbuild *b = &h->b;
    host_builder *a = h->builder;
    for (int k = 0; k < a->io->pools.n; k++) {
        const io_pool *x = &a->io->pools.at[k];
        if (x->pool->section || !x->bytes) continue;
        ins *at = pool_member(h, x), *need = lb_int(b, i64(), x->bytes);
        ins *given = lb_field(b, i64(), h->in, x->size, interface_int64_offset(x->size_slot));
        host_fail_if(h, lb_cmp(b, L_SLT, given, need), ONNXC_WORKSPACE_SIZE,
                     arena_printf(a->arena, "pool '%s' is too small: %lld bytes needed", x->pool->name,
                                  (long long)x->bytes));
        host_fail_if(h, lb_cmp(b, L_EQ, at, lb_null(b)), ONNXC_NULL_POINTER,
                     arena_printf(a->arena, "pool '%s' is a null pointer", x->pool->name));
        ins *low = lb_bin(b, L_AND, lb_bitcast(b, size_type(h), at), lb_int(b, size_type(h), a->align - 1));
        host_fail_if(h, lb_cmp(b, L_NE, low, lb_int(b, size_type(h), 0)), ONNXC_WORKSPACE_ALIGN,
                     arena_printf(a->arena, "pool '%s' must be aligned to %lld bytes", x->pool->name,
                                  (long long)a->align));
    }
}

void load_pools(host *h) {
    const interface *io = h->builder->io;
    int caller = 0;
    if (!io->pools.n) return;
    h->pools = ARENA_ARRAY(h->builder->arena, ins *, io->pools.n + 1);
    for (int k = 0; k < io->pools.n; k++) {
        const io_pool *x = &io->pools.at[k];
        int number = x->pool->section ? 0 : caller++;
        if (!x->bytes) continue;
        h->pools[k] = x->pool->section ? lb_symbol(&h->b, x->name)
                      : h->in          ? pool_member(h, x)
                                       : lb_load(&h->b, lt_ptr(), h->workspace, lb_idx(&h->b, number), 0);
    }
    h->pools[io->pools.n] = lb_null(&h->b); // the driver refuses what fits no pool
}

static ins *address_array(host *h) { return named_local(&h->b, "pools", LK_PTR, h->builder->io->callers); }

ins *pool_array(host *h) {
    const interface *io = h->builder->io;
    ins *all = address_array(h);
    int caller = 0;
    for (int k = 0; k < io->pools.n; k++)
        if (!io->pools.at[k].pool->section)
            lb_store(&h->b, all, lb_idx(&h->b, caller++), pool_member(h, &io->pools.at[k]), 0);
    return all;
}

ins *split_workspace(host *h) {
    const interface *io = h->builder->io;
    ins *all = address_array(h);
    int64_t at = 0;
    int caller = 0;
    for (int k = 0; k < io->pools.n; k++) {
        if (io->pools.at[k].pool->section) continue;
        ins *place = lb_offset(&h->b, h->workspace, lb_idx(&h->b, at), 1);
        lb_store(&h->b, all, lb_idx(&h->b, caller++), place, 0);
        at += io->pools.at[k].bytes;
    }
    return all;
}

void reserve_pools(host_builder *a) {
    for (int k = 0; k < a->io->pools.n; k++) {
        const io_pool *x = &a->io->pools.at[k];
        if (!x->pool->section || !x->bytes) continue;
        ldata *d = ARENA_NEW(a->arena, ldata);
        *d = (ldata){.name = x->name,
                     .bytes = x->bytes,
                     .align = (int)a->align,
                     .variable = true,
                     .section = x->pool->section,
                     .dtype = DT_U8};
        VEC_PUSH(a->arena, &a->m->data, d);
    }
}
