// Arenas: all memory of a compilation belongs to one; blocks are not freed individually. The arena argument
// of a function determines the lifetime of its result.
#ifndef ONNXC_COMPILER_BASE_ARENA_H
#define ONNXC_COMPILER_BASE_ARENA_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct arena arena;

arena *arena_new(void);
// A temporary arena: destroyed with its owner if an error skips its own arena_destroy.
arena *arena_within(arena *owner);
// Runs the clean-ups (latest first), then frees all memory.
void arena_destroy(arena *a);
// Zeroed, 16-byte aligned. Never NULL: out of memory calls the handler below, or aborts.
void *arena_alloc(arena *a, size_t size);
// n elements of size bytes each; an overflowing product counts as out of memory.
void *arena_calloc(arena *a, size_t n, size_t size);
// Copy of old_size bytes in a block of new_size bytes.
void *arena_grow(arena *a, const void *old, size_t old_size, size_t new_size);
char *arena_strdup(arena *a, const char *s);
char *arena_strndup(arena *a, const char *s, size_t n);
char *arena_printf(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(arena *a, const char *format, va_list args);
// In a variadic function: declares s, the text of `format` and the arguments after it.
#define ARENA_VARIADIC(a, s, format)                                                                         \
    va_list args;                                                                                            \
    va_start(args, format);                                                                                  \
    const char *s = arena_vprintf((a), format, args);                                                        \
    va_end(args)
// fn(arg) runs when the arena is destroyed (to unmap files, dispose LLVM objects).
void arena_on_destroy(arena *a, void (*fn)(void *), void *arg);
// Limits the bytes of the arena (0: no limit); handler is called when they are exceeded and must not return.
void arena_set_limit(arena *a, size_t bytes, void (*handler)(void *), void *arg);
bool arena_has_room(const arena *a, size_t bytes); // whether this many more are within the limit
size_t arena_bytes(const arena *a);

#define ARENA_NEW(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_calloc((a), (size_t)(n), sizeof(type)))

// A growable array living in an arena: VEC(int) v = {0}; VEC_PUSH(a, &v, 7); v.at[0]; v.n
#define VEC(type)                                                                                            \
    struct {                                                                                                 \
        type *at;                                                                                            \
        int n, cap;                                                                                          \
    }
#define VEC_PUSH(a, v, ...)                                                                                  \
    ((v)->n == (v)->cap ? (void)((v)->cap = (v)->cap ? 2 * (v)->cap : 8,                                     \
                                 (v)->at = arena_grow((a), (v)->at, (size_t)(v)->n * sizeof *(v)->at,        \
                                                      (size_t)(v)->cap * sizeof *(v)->at))                   \
                        : (void)0,                                                                           \
     (void)((v)->at[(v)->n++] = (__VA_ARGS__)))

typedef VEC(const char *) string_list;
int string_order(const void *a, const void *b); // for qsort of strings

// Growable text in an arena. s is always NUL-terminated ("" while empty may be NULL: use text_str).
typedef struct text {
    arena *arena;
    char *s;
    size_t n, cap;
} text;
void text_add(text *t, const char *s);
void text_addn(text *t, const char *s, size_t n);
void text_printf(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *text_str(const text *t);
// The shortest decimal number that reads back as v, which is finite; single: as a float.
enum { REAL_SIZE = 32 };
void real_text(char s[REAL_SIZE], double v, bool single);
// Appends s in double quotes; control characters, invalid UTF-8, quotes and backslashes are escaped (\n \t
// \xHH \" \\), so that the bytes can be read back.
void text_add_quoted(text *t, const char *s, size_t n);
// Reads back the text of text_add_quoted at *s and moves *s past it; NULL: not a quoted string. The result
// has *n bytes and may contain NULs.
char *text_unquote(arena *a, const char **s, size_t *n);
// The length of the UTF-8 character at s, which has n bytes, and its code point; 0: invalid.
int utf8_decode(const char *s, size_t n, uint32_t *code);
int hex_digit(char c);                                      // -1: not a hex digit
int text_equals(const char *s, size_t n, const char *word); // the n bytes equal word
// Optimal string alignment: swapped neighbours count once. Time and memory are the product of the lengths.
int edit_distance(arena *a, const char *s, const char *t);
// The most similar of n words, for hints; NULL: none is similar.
const char *nearest_word(arena *a, const char *s, const char *const *words, int n);
// An identifier of at most `most` characters: the beginning and the end of s, in whole words where words end in
// underscores. C compilers need not distinguish identifiers
// that differ after IDENTIFIER_MOST characters.
enum { IDENTIFIER_MOST = 63 };
const char *fit_identifier(arena *a, const char *s, size_t most);
// s for a message: unsafe characters escaped, clipped after `most` bytes.
void text_add_safe(text *t, const char *s, size_t most);
// The same for a name, shortened in the middle to a column of about 60 characters: names often differ at their ends only.
void text_add_short(text *t, const char *name);
const char *short_text(arena *a, const char *name); // the same as a string
const char *safe_text(arena *a, const char *s);     // all of it
// A copy in which `with` is in place of such characters.
char *blank_text(arena *a, const char *s, char with);

// Map from a string or a pointer-sized integer key to a pointer; insertion order kept in keys[].
typedef struct map {
    arena *arena;
    struct map_slot {
        const char *key; // interned copy for string maps, NULL for integer maps
        uint64_t number;
        void *value;
    } *slots;   // in insertion order
    int *index; // open addressing, -1 empty
    int n, cap;
} map;
void map_put(map *m, const char *key, void *value); // replaces
void *map_get(const map *m, const char *key);       // NULL when absent
void map_put_number(map *m, uint64_t key, void *value);
void *map_get_number(const map *m, uint64_t key);

// 64-bit FNV-1a, for hash tables and content names; chain with seed (start with HASH_SEED).
#define HASH_SEED 0xcbf29ce484222325u
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t n);
uint64_t hash_string(uint64_t seed, const char *s);
size_t available_memory(void); // bytes
#endif
