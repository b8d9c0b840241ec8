// What the tests of the forward run over.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_MODEL_KIND_SETTINGS_H_
#define PHITAP_TESTS_UNIT_MODEL_KIND_SETTINGS_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/dtype.h"
#include "tests/support/checkpoint_files.h"

namespace phitap {

#ifdef PHITAP_SANITIZED
// A forward takes ten times as long, and threads beyond those that there are
// rows for run no other code.
inline constexpr size_t kSettingsOfKind = 2;
inline constexpr int kMostThreads = 12;
#else
inline constexpr size_t kSettingsOfKind = 1000;
inline constexpr int kMostThreads = 48;
#endif

// Each kind of checkpoint with each setting, or with kSettingsOfKind of them,
// which lie apart; every setting comes with some kind.
template <typename Setting>
std::vector<std::tuple<TinyKind, Setting>> KindsWith(
    const std::vector<Setting>& settings) {
  const size_t count = settings.size();
  const size_t taken = std::min(kSettingsOfKind, count);
  std::vector<std::tuple<TinyKind, Setting>> pairs;
  for (size_t kind = 0; kind < std::size(kTinyKinds); ++kind) {
    for (size_t i = 0; i < taken; ++i) {
      pairs.emplace_back(kTinyKinds[kind],
                         settings[(kind + i * count / taken) % count]);
    }
  }
  return pairs;
}

// How a forward computes.
struct ComputeSetting {
  DType dtype;
  int thread_count;
};

inline std::string NameOf(const ComputeSetting& setting) {
  return absl::StrCat(Name(setting.dtype), "_", setting.thread_count);
}

inline void PrintTo(const ComputeSetting& setting, std::ostream* out) {
  *out << NameOf(setting);
}

// Each element type with each number of threads, as far as kMostThreads.
inline std::vector<ComputeSetting> ComputeSettings(
    const std::vector<DType>& dtypes, const std::vector<int>& thread_counts) {
  std::vector<ComputeSetting> settings;
  for (const DType dtype : dtypes) {
    for (const int count : thread_counts) {
      if (count <= kMostThreads) settings.push_back({dtype, count});
    }
  }
  return settings;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_MODEL_KIND_SETTINGS_H_
