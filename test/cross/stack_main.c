// Measures the deepest stack of a model's run: its own stack is painted, the run writes over it. In: CALL(top), which
// stack.py writes. Out: "used N code N" on standard output, by system calls or semihosting, without a C library.
#include "model.h"

typedef unsigned long word;
enum { STACK = 1 << 16, PAINT = 0xa5 };
static unsigned char stack[STACK] __attribute__((aligned(64)));
// Calls f(in, out, workspace, size) with the stack pointer at top.
word on_stack(void *top, void *f, const void *in, void *out, void *workspace, word size);

#if defined __x86_64__
__asm__(".globl on_stack\non_stack: push %rbx\nmov %rsp, %rbx\nmov %rdi, %rsp\nmov %rsi, %rax\nmov %rdx, "
        "%rdi\nmov %rcx, %rsi\n"
        "mov %r8, %rdx\nmov %r9, %rcx\ncall *%rax\nmov %rbx, %rsp\npop %rbx\nret\n"
        ".globl _start\n_start: and $-16, %rsp\ncall measure\n");
static word system3(word n, word a, word b, word c) {
    __asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return n;
}
enum { WRITE = 1, EXIT = 60 };
#elif defined __aarch64__
__asm__(".globl on_stack\non_stack: stp x29, x30, [sp, #-32]!\nstr x19, [sp, #16]\nmov x19, sp\nmov sp, "
        "x0\nmov x9, x1\nmov x0, x2\n"
        "mov x1, x3\nmov x2, x4\nmov x3, x5\nblr x9\nmov sp, x19\nldr x19, [sp, #16]\nldp x29, x30, [sp], "
        "#32\nret\n"
        ".globl _start\n_start: bl measure\n");
static word system3(word n, word a, word b, word c) {
    register word x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
enum { WRITE = 64, EXIT = 93 };
#elif defined __riscv
__asm__(
    ".globl on_stack\non_stack: addi sp, sp, -32\nsw ra, 0(sp)\nsw s1, 8(sp)\nmv s1, sp\nmv sp, a0\nmv t1, "
    "a1\nmv a0, a2\n"
    "mv a1, a3\nmv a2, a4\nmv a3, a5\njalr t1\nmv sp, s1\nlw ra, 0(sp)\nlw s1, 8(sp)\naddi sp, sp, 32\nret\n"
    ".globl _start\n_start: call measure\n");
static word system3(word n, word a, word b, word c) {
    register word a7 __asm__("a7") = n, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
    return a0;
}
enum { WRITE = 64, EXIT = 93 };
#elif defined __arm__
__asm__(".syntax unified\n.thumb\n.globl on_stack\n.thumb_func\non_stack: push {r4, r5, r6, lr}\nmov r4, "
        "sp\nldr r5, [sp, #16]\n"
        "ldr r6, [sp, #20]\nmov sp, r0\nmov r12, r1\nmov r0, r2\nmov r1, r3\nmov r2, r5\nmov r3, r6\nblx "
        "r12\nmov sp, r4\n"
        "pop {r4, r5, r6, pc}\n");
void measure(void);
static unsigned char first_stack[4096] __attribute__((aligned(8)));
static void begin(void) {
#ifdef __ARM_FP
    *(volatile word *)0xe000ed88 |= 0xful << 20; // the coprocessor of floats, and of vectors
#endif
    measure();
}
__attribute__((section(".vectors"), used)) static void *const vectors[] = {first_stack + sizeof first_stack,
                                                                           (void *)begin};
// Semihosting.
enum { WRITE = 4, EXIT = 0x18 };
static word system3(word n, word a, word b, word c) {
    (void)a, (void)c;
    register word r0 __asm__("r0") = n, r1 __asm__("r1") = n == EXIT ? 0x20026 : b;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
#endif

void *memcpy(void *to, const void *from, word n) {
    for (word i = 0; i < n; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memset(void *to, int c, word n) {
    for (word i = 0; i < n; i++) ((volatile char *)to)[i] = (char)c;
    return to;
}
void *memmove(void *to, const void *from, word n) {
    for (word i = n; i-- > 0 && (char *)to > (const char *)from;)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return (char *)to > (const char *)from ? to : memcpy(to, from, n);
}

static void print(const char *name, word n) {
    char text[40];
    int at = sizeof text;
    text[--at] = 0;
    text[--at] = '\n';
    do text[--at] = (char)('0' + n % 10);
    while (n /= 10);
    text[--at] = ' ';
    int length = 0;
    while (name[length]) length++;
    system3(WRITE, 1, (word)name, (word)length);
    system3(WRITE, 1, (word)(text + at), sizeof text - 1 - (word)at);
}

void measure(void) {
    for (int i = 0; i < STACK; i++) stack[i] = PAINT;
    word code = CALL(stack + STACK), low = 0;
    while (low < STACK && stack[low] == PAINT) low++;
    print("used", STACK - low);
    print("code", code);
    system3(EXIT, 0, 0, 0);
}
