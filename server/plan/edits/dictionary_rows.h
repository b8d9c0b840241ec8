// Some of a dictionary's features, without the rest.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_DICTIONARY_ROWS_H_
#define PHITAP_SERVER_PLAN_EDITS_DICTIONARY_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/intervention.pb.h"
#include "server/base/host_tensor.h"
#include "server/plan/program/plan_parts.h"

namespace phitap {

// The rows `features` (below FeatureCount) of a dictionary's tensors; the same
// activations and errors as AddEncode and AddDecode of dictionary_nodes.h. All
// that it is given outlives it.
class DictionaryRows {
 public:
  // `field` is the dictionary's path.
  DictionaryRows(const PlanParts& parts, const v1::Dictionary& dictionary,
                 std::vector<int64_t> features, std::string field);

  // How many features the dictionary has.
  absl::StatusOr<int64_t> FeatureCount() const;
  // x [..., in] to the features' values [..., m].
  absl::StatusOr<int> Encode(int x) const;
  // Values [..., m] to what they stand for, without the decoder's bias: [...,
  // out].
  absl::StatusOr<int> Decode(int values) const;

 private:
  absl::StatusOr<HostTensor> Find(absl::string_view name) const;
  absl::StatusOr<int> AddRows(absl::string_view name, size_t rank) const;
  // −1 where the server keeps none of this name.
  absl::StatusOr<int> AddRowsIfThere(absl::string_view name) const;
  absl::StatusOr<int> WithoutDecoderBias(int x) const;
  absl::StatusOr<int> Activate(int activity) const;

  const PlanParts& parts_;
  const v1::Dictionary& dictionary_;
  const std::vector<int64_t> features_;
  const std::string field_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_DICTIONARY_ROWS_H_
