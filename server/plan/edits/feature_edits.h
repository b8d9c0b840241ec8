// The edited copy of a dictionary's features.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_FEATURE_EDITS_H_
#define PHITAP_SERVER_PLAN_EDITS_FEATURE_EDITS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/program/program_builder.h"

namespace phitap {

// The edits of one dictionary edit, in order. What it is given outlives it.
class FeatureEdits {
 public:
  // The edited features' values [..., m] in the run of a label.
  using ValuesOfRun = std::function<absl::StatusOr<int>(
      const std::string& label, absl::string_view field)>;

  // `field` is the dictionary edit's path.
  FeatureEdits(ProgramBuilder& builder, const v1::DictionaryEdit& edit,
               std::string field, ValuesOfRun values_of_run);

  // The features that the edits name, each once: m of them.
  const std::vector<int64_t>& features() const { return features_; }
  // INVALID_ARGUMENT for a feature that the dictionary lacks.
  absl::Status Check(int64_t feature_count) const;
  // f′ of f [..., m], in the order of features().
  absl::StatusOr<int> Apply(int values) const;

 private:
  std::string Field(int index) const;
  absl::StatusOr<int> Column(int values, size_t place) const;
  absl::StatusOr<int> Edited(int column, size_t place, int index) const;
  absl::StatusOr<int> Set(int column, double value, std::string field) const;
  absl::StatusOr<int> WithNumber(Function function, int column, double value,
                                 std::string field) const;
  absl::StatusOr<int> OfRun(int column, const std::string& label, size_t place,
                            std::string field) const;

  ProgramBuilder& builder_;
  const v1::DictionaryEdit& edit_;
  const std::string field_;
  const ValuesOfRun values_of_run_;
  std::vector<int64_t> features_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_FEATURE_EDITS_H_
