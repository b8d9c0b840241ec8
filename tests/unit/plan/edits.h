// Requests that edit a run, and the tensors that they use.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_PLAN_EDITS_H_
#define PHITAP_TESTS_UNIT_PLAN_EDITS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/host_tensor.h"
#include "tests/unit/plan/planning.h"

namespace phitap {

// A clean run of five tokens and an edited one, `edited`, with these
// interventions; its logits are captured.
inline std::string Edited(const std::string& interventions) {
  return absl::StrCat(
      "runs { label: 'clean' prompt { text: 'abcde' } }"
      "runs { label: 'edited' prompt { text: 'vwxyz' } ",
      interventions, " }", kLogits,
      " constants { key: 'v' value { dtype: DATA_TYPE_F32 shape: 24 data: '",
      [] {
        std::string bytes;
        for (int i = 0; i < 24; ++i)
          absl::StrAppend(&bytes, "\\0\\0\\x80\\x3f");
        return bytes;
      }(),
      "' } } constants { key: 'zero' value { dtype: DATA_TYPE_F32 shape: 24 "
      "data: '",
      [] {
        std::string bytes;
        for (int i = 0; i < 96; ++i) absl::StrAppend(&bytes, "\\0");
        return bytes;
      }(),
      "' } }");
}

// One intervention of the edited run.
inline std::string EditedAt(const std::string& hook_points,
                            const std::string& change) {
  return Edited(absl::StrCat("interventions { hook_points: '", hook_points,
                             "' ", change, " }"));
}

// A float32 tensor whose elements are 1, 2, 3, …
inline HostTensor Counting(std::vector<int64_t> shape) {
  std::vector<float> elements(ElementCount(shape));
  for (size_t i = 0; i < elements.size(); ++i) {
    elements[i] = static_cast<float>(i + 1);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(elements.data());
  return CopyOf(DType::kF32, std::move(shape),
                {bytes, elements.size() * sizeof(float)});
}

// A server that keeps a dictionary `sae` of ten features over 24 units, a
// thresholded one, `jump`, a transcoder from 24 units to 24, a basis, a mask.
inline PlanContext KeepingContext() {
  static const auto& kept = *new std::map<std::string, HostTensor>{
      {"sae.encoder_weight", Counting({10, 24})},
      {"sae.encoder_bias", Counting({10})},
      {"sae.decoder_weight", Counting({10, 24})},
      {"sae.decoder_bias", Counting({24})},
      {"jump.encoder_weight", Counting({10, 24})},
      {"jump.decoder_weight", Counting({10, 24})},
      {"jump.threshold", Counting({10})},
      {"narrow.encoder_weight", Counting({10, 24})},
      {"narrow.decoder_weight", Counting({10, 20})},
      {"torn.encoder_weight", Counting({10, 24})},
      {"torn.decoder_weight", Counting({9, 24})},
      {"basis", Counting({24, 3})},
      {"mask", Counting({3})}};
  PlanContext context = TinyContext();
  context.find_tensor =
      [](absl::string_view name,
         absl::string_view field) -> absl::StatusOr<HostTensor> {
    const auto found = kept.find(std::string(name));
    if (found != kept.end()) return found->second;
    return InvalidField({.field = std::string(field),
                         .problem = absl::StrCat("no tensor ", name)},
                        absl::StatusCode::kNotFound);
  };
  return context;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_PLAN_EDITS_H_
