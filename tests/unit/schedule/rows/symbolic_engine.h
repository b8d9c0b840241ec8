// An engine whose values say what has reached them: each is a hash of exactly
// the tokens and edits that it depends on.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_SCHEDULE_ROWS_SYMBOLIC_ENGINE_H_
#define PHITAP_TESTS_UNIT_SCHEDULE_ROWS_SYMBOLIC_ENGINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/plan/executor.h"
#include "tests/unit/schedule/rows/run_maker.h"

namespace phitap {

// 0 is none.
using SymbolicValue = uint64_t;
// One a position of the run.
using SymbolicLine = std::vector<SymbolicValue>;

// What a row has computed. Hook points are token_embeddings, layer_input,
// attention_keys, attention_scores (one value a query), attention_output,
// mlp_output, layer_output, final_norm_output and logits, each after its edits.
struct SymbolicRow {
  int64_t token_count = 0;
  std::map<std::pair<Hook, int>, SymbolicLine> values;
  // Behind each layer, before the edits there.
  std::map<int, SymbolicLine> residuals;
  // Whether it gave way to its parent.
  bool gone = false;
};

// Executes rows as server/plan/executor.h says, for a model with so many
// layers.
class SymbolicEngine {
 public:
  explicit SymbolicEngine(int layer_count,
                          std::map<RootId, SymbolicRow> roots = {})
      : layer_count_(layer_count), roots_(std::move(roots)) {}

  // All values of the run with that index in a wave, computed alone.
  SymbolicRow Alone(const MadeRun& run, int index) const;

  // Computes the rows of a wave whose runs are `made`.
  void Execute(const WavePlan& wave, const std::vector<MadeRun>& made);
  // What `run` of the wave shows; 0, and a problem, where no row has it.
  SymbolicValue Show(int run, HookPoint point, int64_t position);

  // Keeps a row of the wave, by its index.
  void Keep(size_t row) { roots_[wave_.rows[row].keep_as] = rows_[row]; }
  void Forget(RootId root) { roots_.erase(root); }
  const std::map<RootId, SymbolicRow>& roots() const { return roots_; }

  // What rows lacked, and what was against the contract.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  // What a row is computed from.
  struct Source {
    const MadeRun* run = nullptr;
    // Tells dynamic writes apart.
    int run_index = 0;
    const WaveRow* row = nullptr;
    // Set by edits: whether one of the row's differing writes changed a value.
    bool changed = false;
  };

  SymbolicRow Compute(Source& source);
  SymbolicLine Begin(Source& source, SymbolicRow& row);
  void ComputeLayer(Source& source, int layer, SymbolicLine& residual,
                    SymbolicRow& row);
  // Its keys, then the scores of its queries.
  SymbolicLine Attend(Source& source, int layer, const SymbolicLine& residual,
                      SymbolicRow& row);
  void ComputeHead(Source& source, const SymbolicLine& residual,
                   SymbolicRow& row);
  // Applies the row's edits to its values at a point, and shows them.
  void Visit(Source& source, HookPoint point, SymbolicLine& line,
             SymbolicRow& row);
  // The residual stream behind a layer, or the keys in it, of a row's parent.
  SymbolicValue Residual(const WaveRow& row, int layer, int64_t position);
  SymbolicValue Key(const WaveRow& row, int layer, int64_t position);
  SymbolicValue Lacks(const std::string& what, int layer, int64_t position);

  const int layer_count_;
  WavePlan wave_;
  std::vector<SymbolicRow> rows_;
  std::map<RootId, SymbolicRow> roots_;
  std::vector<std::string> problems_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_SCHEDULE_ROWS_SYMBOLIC_ENGINE_H_
