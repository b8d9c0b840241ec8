// The shapes of an operation's inputs, and what can be wrong with them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_OPERATION_INPUTS_H_
#define PHITAP_SERVER_PLAN_PROGRAM_OPERATION_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/plan/program/shapes.h"

namespace phitap {

// Every error is INVALID_ARGUMENT against `field`; `what` is the operation's
// name in it.
class OperationInputs {
 public:
  // Both outlive it.
  OperationInputs(const std::vector<Shape>& shapes, absl::string_view field)
      : inputs_(shapes), field_(field) {}

  absl::Status Invalid(std::string problem, std::string valid) const;
  absl::Status Misfit(absl::string_view what, std::string valid) const;
  absl::Status WrongCount(absl::string_view what,
                          absl::string_view valid) const;
  absl::Status CheckCount(size_t count, absl::string_view what) const;
  absl::Status UnlikeParts(int64_t dimension) const;
  absl::StatusOr<Shape> Broadcast(const Shape& a, const Shape& b,
                                  absl::string_view what) const;
  // Makes `dimension` of the first input count from the start; its size.
  absl::StatusOr<int64_t> ResolveDimension(int64_t& dimension,
                                           absl::string_view what) const;
  absl::Status ResolveDimensions(std::vector<int64_t>& dimensions,
                                 absl::string_view what) const;
  absl::Status CheckIndices(const std::vector<int64_t>& indices, int64_t size,
                            absl::string_view what) const;
  absl::Status CheckK(int64_t k, absl::string_view what) const;
  Shape WithSize(int64_t dimension, int64_t size) const;

 private:
  const std::vector<Shape>& inputs_;
  absl::string_view field_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_OPERATION_INPUTS_H_
