// In: any text. Out: an identifier that is not a keyword of C or C++ and not a name of their headers.
#include "codegen/c/cname.h"
#include "compiler/base/chars.h"
#include <string.h>

// Keywords of C and C++, types in a model's header, and macros of headers that programs include before it.
static const char reserved[] =
    " alignas alignof and and_eq asm auto bitand bitor bool break BUFSIZ case catch char char16_t char32_t"
    " char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr"
    " constinit continue decltype default delete do double dynamic_cast else enum EOF errno explicit"
    " export extern false float for friend goto HUGE_VAL i386 if INFINITY inline int int16_t int32_t"
    " int64_t int8_t linux long mips mutable namespace NAN new noexcept not not_eq NULL nullptr onnxc"
    " onnxc_context onnxc_library onnxc_status onnxc_string onnxc_value operator or or_eq private"
    " protected PTRDIFF_MAX PTRDIFF_MIN public RAND_MAX register reinterpret_cast requires restrict return"
    " short signed SIZE_MAX size_t sizeof sparc static static_assert static_cast stderr stdin stdout"
    " struct switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual"
    " uint16_t uint32_t uint64_t uint8_t union unix unsigned using virtual void volatile WCHAR_MAX"
    " WCHAR_MIN wchar_t while WINT_MAX WINT_MIN xor xor_eq"
    " ";

// INT_MAX, UINT8_MAX, INT_LEAST16_MIN ... of limits.h and stdint.h.
static bool is_limit(const char *s) {
    size_t n = strlen(s);
    return n > 6 && (!strcmp(s + n - 4, "_MAX") || !strcmp(s + n - 4, "_MIN")) &&
           (!strncmp(s, "INT", 3) || !strncmp(s, "UINT", 4));
}

bool c_is_word_of(const char *words, const char *s) {
    size_t n = strlen(s);
    for (const char *at = strstr(words, s); n && at; at = strstr(at + 1, s))
        if (at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

bool c_is_reserved(const char *s) {
    if (s[0] == '_' && (s[1] == '_' || (s[1] >= 'A' && s[1] <= 'Z'))) return true;
    return c_is_word_of(reserved, s) || is_limit(s);
}

static bool is_plain(char c) { return char_is_letter(c) || char_is_digit(c); }

// Other characters become underscores, but not at the start, where they would make a reserved name.
const char *c_identifier(arena *a, const char *s, const char *fallback) {
    char *out = arena_alloc(a, strlen(s) + 2);
    size_t n = 0;
    for (; *s; s++) {
        if (is_plain(*s)) out[n++] = *s;
        else if (n && out[n - 1] != '_') out[n++] = '_';
    }
    while (n && out[n - 1] == '_') n--;
    out[n] = 0;
    if (!n) return fallback;
    if (out[0] >= '0' && out[0] <= '9') return arena_printf(a, "%s%s", fallback, out);
    return c_is_reserved(out) ? arena_printf(a, "%s_", out) : out;
}

const char *c_short_name(arena *a, const char *s, size_t n) {
    enum { MOST = 44, FRONT = 12, BACK = 30 };
    if (n <= MOST) return arena_strndup(a, s, n);
    return arena_printf(a, "%.*s__%.*s", FRONT, s, BACK, s + n - BACK);
}

const char *c_short_names(arena *a, const char *s) {
    text t = {.arena = a};
    if (!s) return NULL;
    size_t first = strcspn(s, "\n");
    text_addn(&t, s, first);
    for (s += first; *s;) {
        size_t n = 0;
        while (is_plain(s[n]) || (s[n] && strchr("_/.:;", s[n]))) n++;
        if (n) text_add(&t, c_short_name(a, s, n));
        else text_addn(&t, s, n = 1);
        s += n;
    }
    return text_str(&t);
}
