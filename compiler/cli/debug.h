// The parts of onnxc debug.
//   command_debug.c    the run: events, stops, breakpoints
//   debug_commands.c   the commands
//   debug_show.c       what they print
//   debug_line.c       reads their lines
#ifndef ONNXC_COMPILER_CLI_DEBUG_H
#define ONNXC_COMPILER_CLI_DEBUG_H
#include "compiler/cli/debug_line.h"
#include "compiler/cli/run_io.h"
#include "compiler/driver/probes.h"
#include "compiler/values/stats.h"

// A value of the model that was computed, or an input of the model.
typedef struct debug_value {
    const char *name;
    import_value *value; // a copy
    tensor memory;       // of the run, if the value can be set; data NULL: it cannot
    const probed_node
        *node;    // that computed it, or, of inputs of a body, that begins it; NULL: an input of the model
    int64_t time; // number of the event
} debug_value;

typedef struct breakpoint {
    const char *said;
    bool *at; // by node
    int hits;
} breakpoint;

typedef enum motion { MOVE_STEP, MOVE_NEXT, MOVE_FINISH, MOVE_CONTINUE } motion;

typedef struct debugger {
    session *session;
    arena *arena;
    pipeline *pipeline;
    probes *probes;
    runnable *model;
    tensor *in, *out;
    bool compiled; // the run is by compiled code, which uses memory again
    line_reader lines;
    map values;                    // name -> debug_value
    VEC(breakpoint *) breakpoints; // deleted ones: NULL
    bool watch_nan, watch_inf;

    motion motion;
    int64_t count;               // of steps to go
    const probed_node *from;     // where the motion began; NULL: the start
    const probed_node *here;     // the node that runs next, or that ended with what is watched
    const probed_node *previous; // the node that ran last
    int *runs;                   // of each node
    int64_t time;                // events so far
    bool started, ended, failed, quit, restart, resume;
    const char *last; // command line, which an empty one repeats
} debugger;

// command_debug.c
debug_value *debug_find(debugger *d, const char *name);
// Marks the nodes that `said` names by name, value, operator or regular expression; their number.
int debug_resolve(debugger *d, const char *said, bool *at);

// debug_commands.c
void debug_command(debugger *d, const char *line);

// debug_show.c
const char *debug_node_text(debugger *d, const probed_node *n); // "#3 node 'act' (Relu-14): h -> y"
void debug_show_place(debugger *d);
void debug_show_value(debugger *d, const char *said, bool all);
void debug_show_stats(debugger *d, const char *name);
void debug_show_node(debugger *d, const probed_node *n);
void debug_show_list(debugger *d, const probed_node *around, int most);
void debug_show_summary(debugger *d, const char *name);         // one line: type and range
void debug_show_outputs(debugger *d);                           // of the node that ran last
const import_value *debug_known(debugger *d, const char *name); // a value or a constant; NULL: reported
#endif
