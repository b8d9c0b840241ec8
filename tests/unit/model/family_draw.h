// Random families of runs, for tests.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_MODEL_FAMILY_DRAW_H_
#define PHITAP_TESTS_UNIT_MODEL_FAMILY_DRAW_H_

#include <cstdint>
#include <random>
#include <vector>

#include "tests/unit/model/difference_rows.h"

namespace phitap {

// Draws families. Runs differ in edits, or from some token on.
class FamilyDraw {
 public:
  FamilyDraw(const Phi3& model, const ForwardOptions& options, unsigned seed)
      : model_(model), options_(options), random_(seed) {}

  int64_t Draw(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random_() % (to - from + 1));
  }

  // A run without a parent.
  FamilyRun Root(int64_t token_count);
  // A run below `parent`, which goes to the last layer.
  FamilyRun Child(const FamilyRun& parent, int parent_row);
  // Some trees, each run below one of those before it.
  std::vector<FamilyRun> Forest(int run_count, int64_t most_tokens);
  // The same below a run whose states were kept.
  std::vector<FamilyRun> Below(const FamilyRun& kept, const RowStates& states,
                               int run_count);
  // Some of the leaves ask for less of their rectangles.
  void Prune(std::vector<FamilyRun>& runs);

 private:
  PlaceEdit Edit(const FamilyRun& run);
  void Edits(FamilyRun& run, int64_t most);
  void AskForLess(FamilyRun& run);
  void Diverge(const FamilyRun& parent, FamilyRun& run);
  void CutOut(const FamilyRun& parent, FamilyRun& run);

  const Phi3& model_;
  const ForwardOptions options_;
  std::mt19937 random_;
};

// Whether each run is nobody's parent.
std::vector<bool> Leaves(const std::vector<FamilyRun>& runs);

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_MODEL_FAMILY_DRAW_H_
