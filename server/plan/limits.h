// Ceilings on one request: what keeps a single caller from taking the server.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_LIMITS_H_
#define PHITAP_SERVER_PLAN_LIMITS_H_

#include <cstdint>

namespace phitap {

struct Limits {
  // Runs of a request: each keeps a queue entry and a row of a wave.
  int64_t max_runs = 1024;
  // Tokens of one run, below the model's own maximum: attention's work grows
  // with their square.
  int64_t max_run_tokens = 131072;
  // Tokens of all runs: keys and values of a wave are in memory together.
  int64_t max_request_tokens = 1 << 20;
  // Bytes of one prompt's text or conversation: tokenizing is not cancelled.
  int64_t max_text_bytes = 4 << 20;
  // Bytes of a label: it is repeated in every descriptor.
  int64_t max_label_bytes = 256;
  // Captures of a request: each is resolved for every run.
  int64_t max_captures = 1024;
  // Tensors of an answer: each is described, hashed and sent on its own.
  int64_t max_tensors = 65536;
  // Indices in all resolved selections, and token ids of all lenses: they are
  // kept for every value while the request lives.
  int64_t max_selected_indices = 1 << 24;
  // Bytes of one value as the model makes it for one run, before selection of
  // columns and reduction: a small answer must not need a large forward.
  int64_t max_value_bytes = int64_t{8} << 30;
  // Bytes of an answer: held until the client has read them.
  int64_t max_response_bytes = int64_t{4} << 30;
  // Interventions of all runs, sweeps expanded.
  int64_t max_interventions = 1 << 17;
  // Nodes of a program as the caller writes it, and of all that the request is
  // lowered to.
  int64_t max_program_nodes = 4096;
  int64_t max_lowered_nodes = 1 << 20;
  // Bytes of inline tensors and constants together; larger ones are uploaded.
  int64_t max_constant_bytes = 64 << 20;
  // Bytes of any one node's value.
  int64_t max_node_bytes = int64_t{2} << 30;
  // Cells of all sweeps: each is a run.
  int64_t max_sweep_cells = 16384;
  // Tokens of runs that are computed in one wave so that one can read another
  // as they go; where they would be more it waits for the other to end, if it
  // can.
  int64_t max_linked_tokens = 8192;
  // Tokens that one run may generate.
  int64_t max_generated_tokens = 32768;
  // Bytes that a wave may need while it is computed: of
  // TracePlan::workspace_bytes and RunGroup::workspace_bytes of any one group.
  int64_t max_wave_bytes = int64_t{8} << 30;
  // Bytes that a request may hold on the server besides its answer: see
  // TracePlan::working_bytes.
  int64_t max_working_bytes = int64_t{8} << 30;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_LIMITS_H_
