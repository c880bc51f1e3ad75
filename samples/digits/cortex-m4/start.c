/* Start of a program on a bare Cortex-M4F: vectors, floating point on, .data and .bss, then main.
 * Output and exit go to the debugger or qemu by semihosting (newlib's librdimon). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern uint32_t __stack[], __data_load[], __data_start[], __data_end[], __bss_start[], __bss_end[];
int main(void);
void initialise_monitor_handles(void);
void reset(void);

#define CPACR (*(volatile uint32_t *)0xe000ed88)

static void stop(void) {
    for (;;) {
    }
}

/* Called before the floating-point unit is on, so it must not use it. */
void reset(void) {
    CPACR |= 0xfu << 20;
    __asm volatile("dsb\n\tisb" ::: "memory");
    memcpy(__data_start, __data_load, (size_t)((char *)__data_end - (char *)__data_start));
    memset(__bss_start, 0, (size_t)((char *)__bss_end - (char *)__bss_start));
    initialise_monitor_handles();
    exit(main());
}

/* exit's calls of global constructors and destructors: there are none. */
void _init(void) {}
void _fini(void) {}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    __stack,
    (void *)reset,
    (void *)stop,
    (void *)stop,
    (void *)stop,
    (void *)stop,
    (void *)stop,
    0,
    0,
    0,
    0,
    (void *)stop,
    (void *)stop,
    0,
    (void *)stop,
    (void *)stop,
};
