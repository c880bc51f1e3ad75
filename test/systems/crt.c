// What code in Microsoft's flavour needs of the C library, for a test without a Windows SDK.
#include <stddef.h>

int _fltused = 0x9875;

int _DllMainCRTStartup(void *module, unsigned reason, void *reserved);
int _DllMainCRTStartup(void *module, unsigned reason, void *reserved) {
    (void)module;
    (void)reason;
    (void)reserved;
    return 1;
}

void *memcpy(void *to, const void *from, size_t n) {
    for (size_t i = 0; i < n; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t n) {
    for (size_t i = 0; i < n; i++) ((volatile char *)to)[i] = (char)value;
    return to;
}

#ifdef __x86_64__
// Touches each page of a large frame, rax bytes, in order.
__asm__(".globl __chkstk\n"
        "__chkstk:\n"
        "    push %rcx\n"
        "    push %rax\n"
        "    cmp $4096, %rax\n"
        "    lea 24(%rsp), %rcx\n"
        "    jb 2f\n"
        "1:  sub $4096, %rcx\n"
        "    orl $0, (%rcx)\n"
        "    sub $4096, %rax\n"
        "    cmp $4096, %rax\n"
        "    ja 1b\n"
        "2:  sub %rax, %rcx\n"
        "    orl $0, (%rcx)\n"
        "    pop %rax\n"
        "    pop %rcx\n"
        "    ret\n");
#endif
