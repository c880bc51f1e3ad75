// In the place of libnvrtc where there is none: its PTX and its cubins are the CUDA text, behind a line that
// says for what they were made. test/shim/cuda_double.c takes them. $NVRTC_DOUBLE_LOG: a file that gets a
// line for each program that is compiled; $NVRTC_DOUBLE_APART: there is no PTX where machine code is made;
// $NVRTC_DOUBLE_MUTE: there are no options for ptxas, as in NVRTC's first versions. Where ptxas is asked for
// what functions use, the N-th of a program has 10 + N registers, N bytes of shared memory and of stack.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program {
    char *text, *made, *said;
} program;

int nvrtcVersion(int *major, int *minor) {
    *major = 12, *minor = 9;
    return 0;
}
int nvrtcGetNumSupportedArchs(int *n) {
    *n = 4;
    return 0;
}
int nvrtcGetSupportedArchs(int *archs) {
    static const int all[] = {75, 80, 86, 90};
    memcpy(archs, all, sizeof all);
    return 0;
}

int nvrtcCreateProgram(program **p, const char *source, const char *name, int nheaders,
                       const char *const *headers, const char *const *names) {
    (void)name, (void)nheaders, (void)headers, (void)names;
    *p = calloc(1, sizeof **p);
    (*p)->text = strdup(source);
    return 0;
}

int nvrtcDestroyProgram(program **p) {
    free((*p)->text);
    free((*p)->made);
    free((*p)->said);
    free(*p);
    *p = NULL;
    return 0;
}

static void log_program(const char *arch) {
    const char *path = getenv("NVRTC_DOUBLE_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s\n", arch);
    fclose(f);
}

static char *uses_of(const char *text) {
    char *said = NULL;
    size_t size;
    FILE *f = open_memstream(&said, &size);
    int n = 0;
    for (const char *s = text; (s = strstr(s, "extern \"C\" __global__")); s++) {
        const char *name = strstr(s, " void ");
        if (!name) break;
        fprintf(f, "ptxas info    : Function properties for %.*s\n", (int)strcspn(name + 6, "("), name + 6);
        fprintf(f, "ptxas         .     %d bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n",
                ++n);
        fprintf(f, "ptxas info    : Used %d registers, used 1 barriers, %d bytes smem\n", 10 + n, n);
    }
    fclose(f);
    return said;
}

// A module that is joined of several programs has the first one's head.
int nvrtcCompileProgram(program *p, int n, const char *const *options) {
    const char *arch = "?";
    for (int i = 0; i < n; i++)
        if (!strncmp(options[i], "--gpu-architecture=", 19)) arch = options[i] + 19;
        else if (!strcmp(options[i], "--ptxas-options=-v")) {
            if (getenv("NVRTC_DOUBLE_MUTE")) return 5;
            p->said = uses_of(p->text);
        }
    size_t size = strlen(p->text) + 100;
    p->made = malloc(size);
    log_program(arch);
    snprintf(p->made, size, "//%s\n// .address_size 64\n//part\n%s", arch, p->text);
    return 0;
}

static int has_code(const program *p) { return !strncmp(p->made, "//sm_", 5); }
// Machine code comes with its PTX.
int nvrtcGetPTXSize(program *p, size_t *n) {
    *n = has_code(p) && getenv("NVRTC_DOUBLE_APART") ? 1 : strlen(p->made) + 6;
    return 0;
}
int nvrtcGetPTX(program *p, char *to) {
    size_t n;
    nvrtcGetPTXSize(p, &n);
    *to = 0;
    if (n > 1) sprintf(to, "//compute_%s", p->made + (has_code(p) ? 5 : 10));
    return 0;
}
int nvrtcGetCUBINSize(program *p, size_t *n) {
    *n = has_code(p) ? strlen(p->made) + 1 : 0;
    return 0;
}
int nvrtcGetCUBIN(program *p, char *to) {
    strcpy(to, p->made);
    return 0;
}
int nvrtcGetProgramLogSize(program *p, size_t *n) {
    *n = p->said ? strlen(p->said) + 1 : 1;
    return 0;
}
int nvrtcGetProgramLog(program *p, char *to) {
    strcpy(to, p->said ? p->said : "");
    return 0;
}
const char *nvrtcGetErrorString(int code) { return code ? "error" : "success"; }
