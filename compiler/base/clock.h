// Time in seconds, to subtract.
#ifndef ONNXC_COMPILER_BASE_CLOCK_H
#define ONNXC_COMPILER_BASE_CLOCK_H

double clock_now(void);
double clock_thread(void); // of this thread's work: stands still while the machine does something else
#endif
