// Families of runs that differ in some layers and positions, as rows of
// forwards and each alone, for tests. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_MODEL_DIFFERENCE_ROWS_H_
#define PHITAP_TESTS_UNIT_MODEL_DIFFERENCE_ROWS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/model/forward.h"
#include "server/model/row_states.h"
#include "tests/unit/model/forward_fixture.h"

namespace phitap {

// A checkpoint of that kind with more layers than the tiny ones have.
std::unique_ptr<Phi3> DeepModel(TinyKind kind, DType dtype);
inline constexpr int kDeepLayers = 5;

// Sets everything at one position; of scores and probabilities what one query
// gives to one key.
struct PlaceEdit {
  HookPoint point;
  int64_t position = 0;
  int64_t key = 0;
  double value = 0.0;

  friend bool operator==(const PlaceEdit&, const PlaceEdit&) = default;
};

// The first layer that the edit can reach; of those of the head the number of
// layers.
int FirstLayerOf(const PlaceEdit& edit);

// A run, and the row that is computed of it.
struct FamilyRun {
  Prompt prompt;  // with what the row asks for
  bool long_factors = false;
  std::vector<PlaceEdit> edits;
  int parent = -1;
  const RowStates* parent_states = nullptr;
  int first_layer = 0;
  int64_t first_position = 0;

  bool has_parent() const { return parent >= 0 || parent_states != nullptr; }
  ForwardRow DifferenceRow() const;
  ForwardRow WholeRow() const;
};

// Records everything, after the rows' edits.
class RowEditingHooks : public RecordingHooks {
 public:
  // An edit applies where its row has its position.
  explicit RowEditingHooks(const std::vector<FamilyRun>& runs);

  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override;
  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override;
  std::vector<int> AfterLayer(int layer, const TokenLayout& layout) override;

  // Rows to drop after a layer.
  std::map<int, std::vector<int>> drops;
  // The last layer that each row was seen after.
  std::map<int, int> last_layers;

 private:
  std::vector<std::vector<PlaceEdit>> edits_;
};

// Every value of the run computed alone and whole, with its edits.
Records Alone(const Phi3& model, const FamilyRun& run,
              const ForwardOptions& options);

// What the row has shown is what the run alone shows there, and it has shown
// all of its rectangle and nothing else. Returns the number of tensors.
int ExpectRow(const Records& shown, int row, const FamilyRun& run,
              const Records& alone);

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_MODEL_DIFFERENCE_ROWS_H_
