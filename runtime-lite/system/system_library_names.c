// Libraries that were loaded at run time. In: their handles. Out: the names that they export. Apart from the functions that models call:
// those of glibc used here have no older versions to refer to (runtime-lite/core/glibc_versions.h).
#include "runtime-lite/system/system.h"
#include <stdint.h>
#include <string.h>

#ifdef _WIN32
void system_library_close(void *library) { FreeLibrary(library); }

void system_library_names(void *library, void (*found)(void *user, const char *name), void *user) {
    const char *base = library; // a module's handle is its address
    const IMAGE_DOS_HEADER *dos = library;
    const IMAGE_NT_HEADERS *head = (const void *)(base + dos->e_lfanew);
    const IMAGE_DATA_DIRECTORY *where = &head->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT];
    const IMAGE_EXPORT_DIRECTORY *exports = (const void *)(base + where->VirtualAddress);
    if (!where->Size) return;
    const DWORD *names = (const void *)(base + exports->AddressOfNames);
    for (DWORD i = 0; i < exports->NumberOfNames; i++) found(user, base + names[i]);
}
#elif defined __wasm__
void system_library_close(void *library) { (void)library; }
void system_library_names(void *library, void (*found)(void *user, const char *name), void *user) {
    (void)library, (void)found, (void)user;
}
#else
#include <dlfcn.h>

void system_library_close(void *library) { dlclose(library); }

#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <mach-o/loader.h>
#include <mach-o/nlist.h>

// The number of the loaded image; -1: unknown.
static int64_t image_of(void *library) {
    for (uint32_t i = 0; i < _dyld_image_count(); i++) {
        void *same = dlopen(_dyld_get_image_name(i), RTLD_LAZY | RTLD_NOLOAD);
        if (same) dlclose(same);
        if (same == library) return i;
    }
    return -1;
}

void system_library_names(void *library, void (*found)(void *user, const char *name), void *user) {
    int64_t image = image_of(library);
    if (image < 0) return;
    const struct mach_header_64 *head = (const void *)_dyld_get_image_header((uint32_t)image);
    intptr_t slide = _dyld_get_image_vmaddr_slide((uint32_t)image), tables = 0;
    const struct load_command *c = (const void *)(head + 1);
    for (uint32_t i = 0; i < head->ncmds; i++, c = (const void *)((const char *)c + c->cmdsize)) {
        const struct segment_command_64 *segment = (const void *)c;
        const struct symtab_command *symbols = (const void *)c;
        if (c->cmd == LC_SEGMENT_64 && strcmp(segment->segname, SEG_LINKEDIT) == 0)
            tables = slide + (intptr_t)(segment->vmaddr - segment->fileoff);
        if (c->cmd != LC_SYMTAB || !tables) continue;
        const struct nlist_64 *all = (const void *)(tables + (intptr_t)symbols->symoff);
        for (uint32_t k = 0; k < symbols->nsyms; k++) {
            const char *name = (const char *)(tables + (intptr_t)(symbols->stroff + all[k].n_un.n_strx));
            int defined = (all[k].n_type & N_TYPE) == N_SECT,
                global = (all[k].n_type & (N_EXT | N_STAB)) == N_EXT;
            if (defined && global) found(user, name + (*name == '_'));
        }
    }
}
#else
#include <elf.h>
#include <link.h>

typedef struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    const uint32_t *hash; // GNU hash table
} symbols;

static symbols find_symbols(const struct link_map *map) {
    symbols s = {NULL, NULL, NULL};
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        const void *at = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_SYMTAB) s.table = at;
        if (d->d_tag == DT_STRTAB) s.names = at;
        if (d->d_tag == DT_GNU_HASH) s.hash = at;
    }
    return s;
}

// The number of symbols, which only the hash table implies: one more than the last symbol in its chains.
static uint32_t count_symbols(const symbols *s) {
    uint32_t buckets = s->hash[0], first = s->hash[1], bloom = s->hash[2], last = 0;
    const uint32_t *bucket = s->hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last) last = bucket[i];
    if (last < first) return first;
    while (!(chain[last - first] & 1)) last++;
    return last + 1;
}

void system_library_names(void *library, void (*found)(void *user, const char *name), void *user) {
    struct link_map *map = NULL;
    symbols s = {NULL, NULL, NULL};
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) s = find_symbols(map);
    uint32_t n = s.table && s.names && s.hash ? count_symbols(&s) : 0;
    for (uint32_t i = 1; i < n; i++)
        if (s.table[i].st_shndx != SHN_UNDEF) found(user, s.names + s.table[i].st_name);
}
#endif
#endif
