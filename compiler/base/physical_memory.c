// Memory of the machine, within the limits of its control group.
#include "compiler/base/arena.h"
#include <stdio.h>
#include <unistd.h>

// Bytes of memory of the machine.
static size_t machine_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : INT64_MAX;
}

// The number after a word of a small file, "" for the first; false if it is not a number ("max").
static int read_number(const char *path, const char *format, unsigned long long *v) {
    char line[256];
    int found = 0;
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof line, f)) found = sscanf(line, format, v) == 1;
    if (f) fclose(f);
    return found;
}

size_t available_memory(void) {
    size_t most = machine_memory();
    unsigned long long v, used = 0;
    if (read_number("/proc/meminfo", "MemAvailable: %llu kB", &v) && v << 10 < most) most = (size_t)v << 10;
    if (!read_number("/sys/fs/cgroup/memory.max", "%llu", &v)) return most;
    read_number("/sys/fs/cgroup/memory.current", "%llu", &used);
    v = used < v ? v - used : 0;
    return v < most ? (size_t)v : most;
}
