// Asks a model for the sizes of its outputs, then runs it with arrays of these sizes and of less.
#include "pool.h"
#include <stdio.h>
#include <stdlib.h>

static float x[40 * 50], v[3] = {1, 2, 3}, three[3];

int main(void) {
    pool_in in = {.x_dim2 = 40, .x_dim3 = 50, .v_dim0 = 3, .x = x, .v = v};
    pool_out out = {.three = three};
    int code = pool_output_dims(&in, &out);
    printf("%d: %d x %d, %d\n", code, (int)out.y_dim2, (int)out.y_dim3, (int)out.kept_dim0);
    float *y = malloc((size_t)(out.y_dim2 * out.y_dim3) * sizeof *y), kept[3];
    out.y = y, out.kept = kept, out.kept_capacity = 3;
#ifdef CAPACITIES
    out.y_capacity = out.y_dim2 * out.y_dim3 - 1;
    code = pool_run(&in, &out, NULL, 0);
    printf("%d: %s: %d x %d\n", code, out.message, (int)out.y_dim2, (int)out.y_dim3);
    out.y_capacity++;
#endif
    out.kept_capacity = 1;
    static _Alignas(64) unsigned char workspace[1 << 16];
    size_t size = sizeof workspace;
    code = pool_run(&in, &out, workspace, size);
    printf("%d: %s: %d\n", code, out.message, (int)out.kept_dim0);
    out.kept_capacity = 2;
    code = pool_run(&in, &out, workspace, size);
    printf("%d: %d, %g\n", code, (int)out.kept_dim0, (double)kept[1]);
    in.x_dim2 = -2;
    code = pool_output_dims(&in, &out);
    printf("%d: %s\n", code, out.message);
    free(y);
    return 0;
}
