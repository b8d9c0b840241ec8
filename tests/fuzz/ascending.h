// Lists of indices that ascend, each once.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_ASCENDING_H_
#define PHITAP_TESTS_FUZZ_ASCENDING_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace phitap {

template <typename T>
bool Ascends(const std::vector<T>& values) {
  return std::adjacent_find(values.begin(), values.end(),
                            std::greater_equal<T>()) == values.end();
}

// Ascending, from 0 to before `end`.
template <typename T>
bool AscendsBefore(const std::vector<T>& values, int64_t end) {
  return Ascends(values) &&
         (values.empty() || (values.front() >= 0 && values.back() < end));
}

template <typename T>
bool Holds(const std::vector<T>& ascending, const std::vector<T>& part) {
  return std::includes(ascending.begin(), ascending.end(), part.begin(),
                       part.end());
}

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_ASCENDING_H_
