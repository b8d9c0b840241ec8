// A value whose positions come in parts, put together.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_GATHERED_VALUE_H_
#define PHITAP_SERVER_TRACE_GATHERED_VALUE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace phitap {

// Not thread-safe.
class GatheredValue {
 public:
  // Of `position_count` positions, which lie along the dimension.
  GatheredValue(int64_t position_count, int64_t dimension)
      : missing_(position_count), dimension_(dimension) {}

  // `part` has the positions that stand at `places` of the whole: never one
  // twice. Laid out as the whole; kept, so it must not be written any more.
  void Add(const std::vector<int64_t>& places, const at::Tensor& part);
  // Whether every position is there.
  bool Complete() const { return missing_ == 0; }
  // The whole, once complete.
  at::Tensor Take();

 private:
  struct Part {
    std::vector<int64_t> places;
    at::Tensor value;
  };

  int64_t missing_;
  const int64_t dimension_;
  std::vector<Part> parts_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_GATHERED_VALUE_H_
