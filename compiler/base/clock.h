// Time in seconds since an arbitrary moment: only differences mean something.
#ifndef ONNXC_COMPILER_BASE_CLOCK_H
#define ONNXC_COMPILER_BASE_CLOCK_H

double clock_now(void);
double clock_thread(void); // CPU time of this thread
#endif
