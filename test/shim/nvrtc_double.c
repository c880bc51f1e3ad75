// In the place of libnvrtc where there is none: its PTX and its cubins are the CUDA text, behind a line that
// says for what they were made. test/shim/cuda_double.c takes them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program {
    char *text, *made;
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
    free(*p);
    *p = NULL;
    return 0;
}

// A module that is joined of several programs has the first one's head.
int nvrtcCompileProgram(program *p, int n, const char *const *options) {
    const char *arch = "?";
    for (int i = 0; i < n; i++)
        if (!strncmp(options[i], "--gpu-architecture=", 19)) arch = options[i] + 19;
    size_t size = strlen(p->text) + 100;
    p->made = malloc(size);
    snprintf(p->made, size, "//%s\n// .address_size 64\n//part\n%s", arch, p->text);
    return 0;
}

int nvrtcGetPTXSize(program *p, size_t *n) {
    *n = strlen(p->made) + 1;
    return 0;
}
int nvrtcGetPTX(program *p, char *to) {
    strcpy(to, p->made);
    return 0;
}
int nvrtcGetCUBINSize(program *p, size_t *n) { return nvrtcGetPTXSize(p, n); }
int nvrtcGetCUBIN(program *p, char *to) { return nvrtcGetPTX(p, to); }
int nvrtcGetProgramLogSize(program *p, size_t *n) {
    (void)p;
    *n = 1;
    return 0;
}
int nvrtcGetProgramLog(program *p, char *to) {
    (void)p;
    *to = 0;
    return 0;
}
const char *nvrtcGetErrorString(int code) { return code ? "error" : "success"; }
