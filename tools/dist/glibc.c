// Old versions of functions of glibc, so that what is linked on a new system runs on old ones: the references of LLVM's archives
// bind to these hidden definitions, and these to the versions that every glibc since 2.27 has. x86-64 and AArch64.
// With -DONNXC_PROGRAM only what programs begin with.
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>

#if defined(__x86_64__)
#define BASE    "GLIBC_2.2.5"
#define JUMP(f) "endbr64\njmp *" f "@GOTPCREL(%rip)\n"
enum { STAT_VERSION = 1 };
#elif defined(__aarch64__)
#define BASE    "GLIBC_2.17"
#define JUMP(f) "bti c\nadrp x16, :got:" f "\nldr x16, [x16, :got_lo12:" f "]\nbr x16\n"
enum { STAT_VERSION = 0 };
#endif

// name, as a jump to that version of it.
#define OLD_OF(name, version)                                                                                \
    __asm__(".text\n.p2align 4\n"                                                                            \
            ".symver onnxc_old_" #name ", " #name "@" version "\n"                                           \
            ".globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name                        \
            ":\n" JUMP("onnxc_old_" #name) ".size " #name ", .-" #name "\n");
#define OLD(name) OLD_OF(name, BASE)

#ifdef ONNXC_PROGRAM
OLD(__libc_start_main)
OLD(dlerror)
OLD(dlopen)
OLD(dlsym)
#else
// 2.34: functions of libpthread and libdl went to libc.
OLD(__pthread_key_create)
OLD(pthread_attr_setstacksize)
OLD(pthread_cancel)
OLD(pthread_create)
OLD(pthread_detach)
OLD(pthread_join)
OLD(pthread_key_create)
OLD(pthread_key_delete)
OLD(pthread_kill)
OLD(pthread_mutex_trylock)
OLD(pthread_mutexattr_init)
OLD(pthread_mutexattr_settype)
OLD(pthread_once)
OLD(pthread_rwlock_rdlock)
OLD(pthread_rwlock_unlock)
OLD(pthread_rwlock_wrlock)
OLD(pthread_sigmask)
OLD(pthread_setspecific)
OLD(pthread_getspecific)
OLD(sem_init)
OLD(sem_post)
OLD(sem_wait)
OLD(dladdr)
OLD(dlclose)
OLD(dlerror)
OLD(dlopen)
OLD(dlsym)
#if defined(__x86_64__)
OLD_OF(dlinfo, "GLIBC_2.3.3")
OLD_OF(pthread_setaffinity_np, "GLIBC_2.3.4")
OLD_OF(pthread_getaffinity_np, "GLIBC_2.3.4")
OLD_OF(pthread_getname_np, "GLIBC_2.12")
OLD_OF(pthread_setname_np, "GLIBC_2.12")
#else
OLD(dlinfo)
OLD(pthread_setaffinity_np)
OLD(pthread_getaffinity_np)
OLD(pthread_getname_np)
OLD(pthread_setname_np)
#endif
// 2.29: versions without wrappers that set errno as in System V.
OLD(exp)
OLD(exp2)
OLD(hypot) // 2.35
OLD(log)
OLD(log2)
OLD(pow)

#define HIDDEN __attribute__((visibility("hidden")))

// 2.33: before, these were inline functions that called the following.
int __xstat(int version, const char *path, struct stat *to);
int __fxstat(int version, int fd, struct stat *to);
int __lxstat(int version, const char *path, struct stat *to);
int __fxstatat(int version, int fd, const char *path, struct stat *to, int flags);
int __xmknod(int version, const char *path, mode_t mode, dev_t *device);
HIDDEN int stat(const char *path, struct stat *to) { return __xstat(STAT_VERSION, path, to); }
HIDDEN int fstat(int fd, struct stat *to) { return __fxstat(STAT_VERSION, fd, to); }
HIDDEN int lstat(const char *path, struct stat *to) { return __lxstat(STAT_VERSION, path, to); }
HIDDEN int fstatat(int fd, const char *path, struct stat *to, int flags) {
    return __fxstatat(STAT_VERSION, fd, path, to, flags);
}
HIDDEN int mknod(const char *path, mode_t mode, dev_t device) { return __xmknod(0, path, mode, &device); }
// The structs are the same.
HIDDEN int stat64(const char *path, struct stat64 *to) { return stat(path, (struct stat *)to); }
HIDDEN int fstat64(int fd, struct stat64 *to) { return fstat(fd, (struct stat *)to); }
HIDDEN int lstat64(const char *path, struct stat64 *to) { return lstat(path, (struct stat *)to); }

// 2.33: LLVM reports the size of the heap.
struct mallinfo2 HIDDEN mallinfo2(void);
struct mallinfo2 mallinfo2(void) {
    struct mallinfo i = mallinfo();
    return (struct mallinfo2){.arena = (unsigned)i.arena,
                              .hblkhd = (unsigned)i.hblkhd,
                              .uordblks = (unsigned)i.uordblks,
                              .fordblks = (unsigned)i.fordblks};
}

// 2.32: whether libstdc++ may leave out atomic operations.
HIDDEN extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// 2.35: libgcc finds the tables of the code at an address.
#ifdef DLFO_STRUCT_HAS_EH_DBASE
struct place {
    ElfW(Addr) address;
    struct dl_find_object *found;
};
static int find_in_object(struct dl_phdr_info *object, size_t size, void *context) {
    struct place *at = context;
    ElfW(Addr) start = 0, end = 0, tables = 0;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        ElfW(Addr) from = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && at->address - from < part->p_memsz)
            start = from, end = from + part->p_memsz;
        if (part->p_type == PT_GNU_EH_FRAME) tables = from;
    }
    if (!end) return 0;
    *at->found = (struct dl_find_object){
        .dlfo_map_start = (void *)start, .dlfo_map_end = (void *)end, .dlfo_eh_frame = (void *)tables};
    return 1;
}
HIDDEN int _dl_find_object(void *address, struct dl_find_object *result) {
    struct place at = {(ElfW(Addr))address, result};
    return dl_iterate_phdr(find_in_object, &at) && result->dlfo_eh_frame ? 0 : -1;
}
#endif

// 2.36: names of temporary files.
HIDDEN uint32_t arc4random(void);
uint32_t arc4random(void) {
    uint32_t bits = 0;
    while (getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    }
    return bits;
}

// In place of stdin in Jansson, which compares it with files that it reads.
HIDDEN extern FILE *onnxc_no_stdin;
FILE *onnxc_no_stdin;
#endif
