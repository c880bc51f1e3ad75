// Names of files compared as files. In: what is read and what is to be written; out: errors.
#include "compiler/driver/places.h"
#include <string.h>
#include <sys/stat.h>

bool same_file(const char *a, const char *b) {
    struct stat x, y;
    bool has_a = stat(a, &x) == 0, has_b = stat(b, &y) == 0;
    if (has_a && has_b) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return !has_a && !has_b && strcmp(a, b) == 0;
}

void check_places(diag *d, const char *const *outputs, int noutputs, const char *const *inputs, int ninputs) {
    for (int i = 0; i < noutputs; i++) {
        const char *path = outputs[i];
        bool bad = false;
        for (int j = 0; path && j < ninputs && !bad; j++)
            if ((bad = same_file(path, inputs[j])))
                diag_error(d, NULL, "output file '%s' is also an input, '%s'", path, inputs[j]);
        for (int j = 0; path && j < i && !bad; j++)
            if ((bad = outputs[j] && same_file(path, outputs[j])))
                diag_error(d, NULL, "two outputs have the file name '%s'", path);
    }
}
