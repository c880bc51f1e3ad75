// The pipeline: each step from import to output is a row of this table.
#include "compiler/driver/pipeline.h"
#include "codegen/llvm/cache.h"
#include "codegen/llvm/digest.h"
#include "codegen/llvm/llvm.h"
#include "compiler/driver/budget.h"
#include "compiler/driver/pipeline_impl.h"
#include "compiler/import/file.h"
#include "runtime-lite/onnxc.h"
#include <string.h>

// name, group, pass over the graph or the program | step of the driver, level, minimum -O, targets, flags,
// repeated from
const pass passes[] = {
    {"import", NULL, NULL, step_import, GOAL_GRAPH, 0, ON_ANY, REQUIRED},
    {"stream-sizes", NULL, pass_stream_sizes, NULL, GOAL_GRAPH, 0, ON_ANY, REQUIRED},
    {"infer", NULL, pass_infer, NULL, GOAL_GRAPH, 0, ON_ANY, REQUIRED},
    {"expand", NULL, pass_expand, NULL, GOAL_GRAPH, 0, ON_ANY, REQUIRED},
    {"fold", NULL, pass_fold, NULL, GOAL_GRAPH, 0, ON_ANY},
    {"cse", NULL, pass_cse, NULL, GOAL_GRAPH, 1, ON_ANY},
    {"dce", NULL, pass_dce, NULL, GOAL_GRAPH, 0, ON_ANY},
    {"sizes", NULL, pass_sizes, NULL, GOAL_GRAPH, 0, ON_ANY, 0, "infer"},
    {"state-rows", NULL, pass_state_rows, NULL, GOAL_GRAPH, 0, ON_ANY, REQUIRED, "infer"},
    {"stream", NULL, pass_stream, NULL, GOAL_GRAPH, 0, ON_ANY, REQUIRED},
    {"matrices", NULL, pass_matrices, NULL, GOAL_GRAPH, 1, ON_CPU, RELAXED},

    {"lower", NULL, NULL, step_lower, GOAL_KERNELS, 0, ON_ANY, REQUIRED},

    {"literals", "fuse", pass_literals, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"constants", "fuse", pass_constants, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"merge-concats", "fuse", pass_merge_concats, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"merge-updates", "fuse", pass_merge_updates, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"merge-carried", "fuse", pass_early_carried, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"dead-code", "fuse", pass_dead_code, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"factors", "fuse", pass_factors, NULL, GOAL_PROGRAM, 1, ON_CPU, RELAXED},
    // Epilogues first, so that their work is not duplicated by inlining.
    {"epilogue", "fuse", pass_early_epilogue, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"inline", "fuse", pass_early_inline, NULL, GOAL_PROGRAM, 1, ON_ANY, 0, "epilogue"},
    {"rows", "fuse", pass_early_rows, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"attention", "fuse", pass_early_attention, NULL, GOAL_PROGRAM, 1, ON_ANY, 0, "epilogue"},
    {"epilogue", "fuse", pass_late_epilogue, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"inline", "fuse", pass_late_inline, NULL, GOAL_PROGRAM, 1, ON_ANY, 0, "epilogue"},
    {"rows", "fuse", pass_late_rows, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"attention", "fuse", pass_late_attention, NULL, GOAL_PROGRAM, 1, ON_ANY, 0, "epilogue"},
    {"literals", "fuse", pass_literals, NULL, GOAL_PROGRAM, 1, ON_ANY}, // indices that became known
    {"merge-parts", "fuse", pass_merge_parts, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"merge-carried", "fuse", pass_late_carried, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"heads", "fuse", pass_heads, NULL, GOAL_PROGRAM, 1, ON_CPU, RELAXED},
    {"states", "fuse", pass_states, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"slices", "fuse", pass_slices, NULL, GOAL_PROGRAM, 1, ON_ANY},
    // Of what is no larger than its result now.
    {"epilogue", "fuse", pass_late_epilogue, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"constants", "fuse", pass_late_constants, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"reciprocal", "fuse", pass_reciprocal, NULL, GOAL_PROGRAM, 1, ON_ANY, RELAXED},
    {"weight-scales", "fuse", pass_weight_scales, NULL, GOAL_PROGRAM, 1, ON_ANY, RELAXED},
    {"output-views", "fuse", pass_output_views, NULL, GOAL_PROGRAM, 1, ON_CPU},

    {"narrow", "quantise", pass_narrow, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"phases", "quantise", pass_phases, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"signs", "quantise", pass_signs, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"products", "quantise", pass_products, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"byte-maxima", "quantise", pass_byte_maxima, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"fold-scales", "quantise", pass_fold_scales, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"integer-sums", "quantise", pass_integer_sums, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"tables", NULL, pass_tables, NULL, GOAL_PROGRAM, 1, ON_CPU}, // GPUs compute it
    {"fixed-point", NULL, pass_fixed_point, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"float-tables", NULL, pass_float_tables, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"sink", NULL, pass_sink, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"fixed-rows", NULL, pass_fixed_rows, NULL, GOAL_PROGRAM, 1, ON_CPU, RELAXED},

    {"cblas", "algorithm", pass_cblas, NULL, GOAL_PROGRAM, 1, ON_CPU, RELAXED},
    {"winograd", "algorithm", pass_winograd, NULL, GOAL_PROGRAM, 1, ON_ANY, RELAXED},
    {"split-sums", "algorithm", pass_split_sums, NULL, GOAL_PROGRAM, 1, ON_GPU, RELAXED},
    {"split-attention", "algorithm", pass_split_attention, NULL, GOAL_PROGRAM, 1, ON_GPU, RELAXED},
    {"key-ranges", "algorithm", pass_key_ranges, NULL, GOAL_PROGRAM, 1, ON_CPU, RELAXED},

    {"widen", "layout", pass_widen, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"image-shapes", "layout", pass_image_shapes, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"channels", "layout", pass_channels, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"pad-channels", "layout", pass_pad_channels, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"precision", "layout", pass_precision, NULL, GOAL_PROGRAM, 1, ON_CPU, RELAXED},
    {"exact-halves", "layout", pass_exact_halves, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"elide-concats", "layout", pass_elide_concats, NULL, GOAL_PROGRAM, 1, ON_ANY},
    {"halos", "layout", pass_halos, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"spread-rows", "layout", pass_spread_rows, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"panels", "layout", pass_panels, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"unswitch", "layout", pass_unswitch, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"split-axes", "layout", pass_split_axes, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"row-values", "layout", pass_row_values, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"row-windows", "layout", pass_row_windows, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"few-rows", "layout", pass_few_rows, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"split-stages", "layout", pass_split_stages, NULL, GOAL_PROGRAM, 1, ON_GPU},
    {"round", "layout", pass_round, NULL, GOAL_PROGRAM, 1, ON_GPU_LAID, RELAXED},
    {"gpu-layout", "layout", pass_gpu_layout, NULL, GOAL_PROGRAM, 1, ON_GPU_LAID, RELAXED},
    {"order", NULL, pass_order, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"patches", NULL, pass_patches, NULL, GOAL_PROGRAM, 1, ON_CPU},
    {"place", NULL, pass_place, NULL, GOAL_PROGRAM, 0, ON_GPU_HOST, REQUIRED},

    {"schedule", "loops", NULL, step_schedule, GOAL_LOOPS, 0, ON_ANY, REQUIRED},
    {"memory", "loops", NULL, step_memory, GOAL_LOOPS, 0, ON_HOST, REQUIRED},
    {"host", "loops", NULL, step_host, GOAL_LOOPS, 0, ON_HOST, REQUIRED},
    {"legalise", "loops", NULL, step_legalise, GOAL_LOOPS, 0, ON_HOST, REQUIRED},
    {"images", "loops", NULL, step_images, GOAL_LOOPS, 0, ON_GPU_LAID, REQUIRED},
    {"numbers", NULL, NULL, step_numbers, GOAL_LOOPS, 1, ON_CPU},
    {"roll", NULL, NULL, step_roll, GOAL_LOOPS, 1, ON_CPU},
    {"checksum", NULL, NULL, step_checksum, GOAL_LOOPS, 0, ON_CPU, REQUIRED},

    {"codegen", NULL, NULL, step_codegen, GOAL_FILES, 0, ON_CODE, REQUIRED},
    {"write", NULL, NULL, step_write, GOAL_FILES, 0, ON_FILES, REQUIRED},
    {NULL},
};
// clang-format on

static void prepare(pipeline *p, const source *s, goal g) {
    p->goal = g;
    if (g >= GOAL_PROGRAM) set_targets(p);
    p->name = model_identifier(p->arena, p->diag, p->options, s->path);
    if (g == GOAL_LOOPS) p->model_digest = digest_new(p->arena);
    if (p->options->times) VEC_PUSH(p->arena, &p->files, p->options->times);
    if (source_is_program(s)) {
        if (g == GOAL_GRAPH) diag_fatal(p->diag, NULL, "a program as text has no graph");
        check_program_options(p);
    }
    parse_sizes(p);
    p->source = s;
    if (p->options->tune && p->hooks.progress) p->hooks.progress(p->hooks.user, "tune", 0, 0);
    use_tuned_choices(p, g);
}

void pipeline_run(pipeline *p, const source *s, goal g) {
    prepare(p, s, g);
    if (!source_is_program(s) && (!run_level(p, GOAL_GRAPH) || g == GOAL_GRAPH)) return;
    if (!run_level(p, GOAL_KERNELS) || g == GOAL_KERNELS) return;
    if (g >= GOAL_PROGRAM) choose_patches(p, g);
    run_versions(p);
    if (p->stopped) return;
    if (!p->versions.n || g == GOAL_PROGRAM)
        if (!run_level(p, GOAL_PROGRAM) || g == GOAL_PROGRAM) return;
    if (options_for_both(p->options)) run_for_gpu(p);
    if (!p->stopped) run_level(p, GOAL_LOOPS);
    report_tuned_choices(p);
}

void pipeline_output(pipeline *p) { run_level(p, GOAL_FILES); }

pipeline *pipeline_new(arena *a, diag *d, const options *o, const pipeline_hooks *hooks) {
    pipeline *p = ARENA_NEW(a, pipeline);
    *p = (pipeline){.arena = a, .diag = d, .options = o};
    if (hooks) p->hooks = *hooks;
    return p;
}

static void show_pieces(void *user, int done, int all) {
    const pipeline *p = user;
    p->hooks.progress(p->hooks.user, "codegen", CODEGEN_BEGINS + (1 - CODEGEN_BEGINS) * done / all,
                      p->program->kernels.n);
}

emit_means pipeline_means(pipeline *p) {
    enum { THREADS_MOST = 256 };
    const options *o = p->options;
    int64_t jobs = o->jobs > 0 ? o->jobs : onnxc_default_threads();
    return (emit_means){.threads = jobs < THREADS_MOST ? (int)jobs : THREADS_MOST,
                        .cache = o->cache ? cache_open(p->arena, p->diag, o->cache) : NULL,
                        .progress = p->hooks.progress ? show_pieces : NULL,
                        .user = p};
}
