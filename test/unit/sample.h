// How much of a long list of variants a test program compiles: one of so many. With sanitizers, which show what is wrong with the
// compiler's memory and cost several times as much, some of the list.
#ifndef ONNXC_TEST_UNIT_SAMPLE_H
#define ONNXC_TEST_UNIT_SAMPLE_H

#ifdef __SANITIZE_ADDRESS__
enum { EVERY = 10, EVERY_CPU = 3, EVERY_CASE = 5 };
#else
enum { EVERY = 1, EVERY_CPU = 1, EVERY_CASE = 1 };
#endif
#endif
