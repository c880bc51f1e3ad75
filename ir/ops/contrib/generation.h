// Text generation: what GreedySearch, Sampling, BeamSearch and WhisperBeamSearch of com.microsoft share. The decoder, a
// graph attribute of the node, is embedded twice: before a Loop, for the prompt, and in its body, for one token at a time.
#ifndef ONNXC_IR_OPS_CONTRIB_GENERATION_H
#define ONNXC_IR_OPS_CONTRIB_GENERATION_H
#include "ir/ops/decompose.h"

typedef struct generation generation;
struct generation {
    node *n;
    graph *decoder;
    int64_t eos, pad;
    value *batch, *beams, *rows; // int64[1]: rows = batch * beams; beams is NULL for one
    value *length;               // int64[1]: of the prompt
    value *most, *least;         // int64[1]: max_length; min_length or NULL
    // Options of the logits processors: scalars and masks, NULL if absent
    value *penalty, *mask, *first_mask, *temperature, *presence;
    value *processor; // int64[1]: 1 enables the timestamp rules; NULL: never
    value *seed;      // int64[1], for Sampling
    // The decoder's inputs: `nfeeds` that `feeds` computes in each iteration, `npast` from the previous run's outputs, `nfixed`
    // that stay the same. batch_axis, length_axis: of the past.
    void (*feeds)(const generation *g, node *at, value *iteration, value *ids, value **in);
    int nfeeds, npast, nfixed, batch_axis, length_axis;
    value **past, **fixed;                           // past: after the first run
    value *encoded, *attention, *positions, *states; // read by `feeds`; encoded: the encoder's ids
};

value *joined_along(node *n, value *a, value *b, int64_t axis);
value *counted(node *n, value *size); // 0, 1 .. size - 1; size: int64[1]
value *not_all(node *n, value *done); // a scalar: whether an element is false

// Sets what all operators have: inputs 0 to 2 are input_ids of this rank, max_length and min_length.
void generation_begin(generation *g, node *n, int rank);
value *vector_of(node *n, int i); // n's input i, an integer, as int64[1]
value *size_of(node *n, int i);   // the same of an input that is not negative
value *number_of(node *n, int i); // n's input i, a scalar float; NULL when it is left out
// Copies the nodes of g before `at`, with these values in place of its inputs.
void embed_graph(node *at, graph *g, value *const *in, value **out);
// v with every entry along `axis`, the batch, repeated for each beam.
value *repeat_beams(const generation *g, value *v, int rank, int axis);

// The logits (rows, length, vocabulary) at the last position, as floats. They are output 0 of graph `from`.
value *last_logits(const generation *g, node *at, const graph *from, value *logits);
int64_t declared_size(const generation *g, const value *v, int axis); // a constant size of a decoder's input
// First runs return logits (batch, vocabulary) and set past, fixed and what `feeds` reads.
// A decoder like GPT-2's, or init_decoder, on the prompt. attention: number of the node's input attention_mask.
value *first_gpt_run(generation *g, int attention);
// The encoder, and the decoder as well unless the encoder includes its first run. ids: the decoder's first tokens. mask: of
// the encoder's tokens; NULL if the encoder has none.
value *first_encoder_run(generation *g, value *mask, value *ids, bool *runs_decoder);
value *mask_of_tokens(const generation *g, value *ids); // the encoder's mask: 0 for padding on the left
value *start_ids(const generation *g);                  // decoder_start_token_id, (batch, 1)
// A run of the decoder in the loop: logits (rows, vocabulary). ids: the rows so far. Replaces past.
value *next_run(const generation *g, node *at, value *iteration, value *ids, value **past);
// Carried ids with the length, along `axis`, that they have in this iteration.
value *ids_so_far(const generation *g, node *at, value *iteration, value *ids, int axis);
// Logits processors: the scores (rows, vocabulary) of the tokens that may follow `ids`. first: in the first run.
value *processed_logits(const generation *g, node *at, value *scores, value *ids, bool first);
value *with_timestamps(const generation *g, node *at, value *scores,
                       value *ids); // Whisper's timestamp rules

// A Loop that is built before n.
typedef struct loop_builder {
    node *n, *end; // nodes of the body are made before `end`
    graph *body;
    value *iteration; // int64[1]
    VEC(value *) first, now, next, scanned;
} loop_builder;
void loop_begin(loop_builder *l, node *n);
value *loop_carry(loop_builder *l, value *first); // the value in an iteration
void loop_next(loop_builder *l, const value *now, value *next);
// The Loop's first output: the carried values, then the scanned ones. `start`, `going`: whether an iteration follows.
value *loop_end(loop_builder *l, value *trips, value *start, value *going);

value *padded_sequences(const generation *g, value *ids, int rank); // (..., length), padded to max_length
value *lowest_score(node *at); // the lowest float: the score of excluded tokens
#endif
