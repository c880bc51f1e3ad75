// The default number of threads: the CPUs that this process may run on, limited by the quota of its cgroup or job.
#include "runtime-lite/core/runtime.h"
#include <stdatomic.h>

static int least(int a, int b) { return a && (!b || a < b) ? a : b; }

#ifdef _WIN32
#include "runtime-lite/system/system.h"

// A process that is not bound to CPUs may run on those of all processor groups.
static int affinity(void) {
    DWORD_PTR own = 0, all = 0;
    int n = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all)) own = all = 0;
    for (DWORD_PTR rest = own; rest; rest &= rest - 1) n++;
    int online = (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    if (own == all && online > n) n = online;
    return n > 0 ? n : 1;
}

// A hard limit of the job's share of all CPUs, in hundredths of a percent; containers have one.
static int quota(void) {
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate = {0};
    DWORD needs = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
    if (!QueryInformationJobObject(NULL, JobObjectCpuRateControlInformation, &rate, sizeof rate, NULL))
        return 0;
    if ((rate.ControlFlags & needs) != needs) return 0;
    return (int)((rate.CpuRate * GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) + 9999) / 10000);
}
#elif defined(__APPLE__)
#include <unistd.h>

static int affinity(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
static int quota(void) { return 0; }
#else
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int affinity(void) {
    for (int size = 1024; size <= 1 << 16; size *= 4) {
        cpu_set_t *set = CPU_ALLOC(size);
        if (!set) break;
        size_t bytes = CPU_ALLOC_SIZE(size);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count) return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

static int read_line(const char *path, char *to, int n) {
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    char *line = fgets(to, n, f);
    fclose(f);
    return line != NULL;
}

static int whole_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    long long n = (quota + period - 1) / period;
    return n < 1 << 16 ? (int)n : 1 << 16;
}

// cgroup v2's cpu.max: "max 100000" or "150000 100000".
static int quota_at(const char *folder) {
    char path[4200], line[64];
    long long quota, period;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lld %lld", &quota, &period) != 2) return 0;
    return whole_cpus(quota, period);
}

// The smallest quota between this process's cgroup and the root; 0: none.
static int quota_v2(void) {
    char folder[4096], line[4096];
    FILE *f = fopen("/proc/self/cgroup", "re");
    int best = 0, found = 0;
    while (f && !found && fgets(line, sizeof line, f)) found = strncmp(line, "0::/", 4) == 0;
    if (f) fclose(f);
    if (!found) return 0;
    line[strcspn(line, "\n")] = 0;
    snprintf(folder, sizeof folder, "%s", line + 3);
    for (;;) {
        best = least(quota_at(folder), best);
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder) break;
        *slash = 0;
    }
    return least(quota_at(""), best);
}

static int quota_v1(void) {
    char quota[64], period[64];
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota)) return 0;
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period)) return 0;
    return whole_cpus(atoll(quota), atoll(period));
}

static int quota(void) { return least(quota_v2(), quota_v1()); }
#endif

int onnxc_default_threads(void) {
    static atomic_int known;
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n) return n;
    n = least(quota(), affinity());
    atomic_store_explicit(&known, n, memory_order_relaxed);
    return n;
}
