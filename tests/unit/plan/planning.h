// Requests as text, planned for a tiny model.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_PLAN_PLANNING_H_
#define PHITAP_TESTS_UNIT_PLAN_PLANNING_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "phitap/v1/trace.pb.h"
#include "server/base/field_error.h"
#include "server/plan/plan_trace.h"
#include "tests/support/model_specs.h"

namespace phitap {

// A run of five tokens, and a capture.
constexpr char kFiveTokens[] =
    "runs { prompt { tokens { ids: [1,2,3,4,5] } } }";
constexpr char kLogits[] = "captures { hook_points: 'logits' }";

// One token a letter: a is 0. A chat is its contents. Text that starts with
// "!" fails as an encoder would.
inline absl::StatusOr<std::vector<int32_t>> EncodeLetters(
    const v1::Prompt& prompt) {
  std::string text = prompt.text();
  for (const auto& message : prompt.chat().messages()) {
    if (message.role() == "nobody") {
      return InvalidField(
          {.field = "chat.messages[0].role", .problem = "nobody is no role"});
    }
    text += message.content();
  }
  if (text.front() == '!') return absl::InternalError("the tokenizer failed");
  std::vector<int32_t> ids;
  for (char letter : text) {
    if (letter != ' ') ids.push_back(letter - 'a');
  }
  return ids;
}

inline const ModelSpec& TinySpec() {
  static const ModelSpec& spec = *new ModelSpec(TinyGrouped());
  return spec;
}

inline PlanContext TinyContext() {
  return {.model = "tiny",
          .spec = TinySpec(),
          .compute_dtype = DType::kBF16,
          .encode = EncodeLetters};
}

inline v1::TraceRequest RequestOf(const std::string& text) {
  v1::TraceRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request))
      << text;
  return request;
}

inline absl::StatusOr<std::shared_ptr<const TracePlan>> Plan(
    const std::string& text, const PlanContext& context = TinyContext()) {
  return PlanTrace(RequestOf(text), context);
}

// A request that must be refused: its code and part of its message, which
// starts with the field.
struct Refusal {
  std::string request;
  std::string message;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_PLAN_PLANNING_H_
