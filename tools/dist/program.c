// The programs of archives and wheels: calls of a function of libonnxc, which is in FOLDER relative to the program or, while
// they are built, where the dynamic linker finds it. Its own $ORIGIN would need /proc.
// -DFUNCTION='"onnxc_main"' or '"onnxc_lld"', -DFOLDER='"../lib"'
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef int program(int argc, char **argv);

int main(int argc, char **argv) {
    static const char name[] = "libonnxc.so.0";
    char path[PATH_MAX + sizeof FOLDER "/" + sizeof name];
    const char *executed = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    if (!realpath("/proc/self/exe", path) && !(executed && realpath(executed, path))) {
        fprintf(stderr, "%s: error: the folder of the program cannot be found\n", argv[0]);
        return 2;
    }
    strcpy(strrchr(path, '/') + 1, FOLDER "/");
    strcat(path, name);
    void *library = dlopen(access(path, F_OK) == 0 ? path : name, RTLD_NOW | RTLD_GLOBAL);
    void *function = library ? dlsym(library, FUNCTION) : NULL;
    if (!function) {
        fprintf(stderr, "%s: error: %s\n", argv[0], dlerror());
        return 2;
    }
    program *run;
    memcpy(&run, &function, sizeof run);
    return run(argc, argv);
}
