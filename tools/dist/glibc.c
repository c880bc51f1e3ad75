// arc4random, which LLVM uses for names of temporary files, is newer than the other functions of glibc that static programs need.
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
uint32_t arc4random(void);
uint32_t arc4random(void) {
    uint32_t bits = 0;
    while (getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    }
    return bits;
}
// In place of stdin in Jansson, which compares it with files that it reads.
extern FILE *onnxc_no_stdin;
FILE *onnxc_no_stdin;
