// Several files in one input, as text that a person can read and write.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_FILE_PARTS_H_
#define PHITAP_TESTS_FUZZ_FILE_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/support/checkpoint_files.h"

namespace phitap {

// By name, what follows each line `=== NAME` up to the next one, where NAME is
// one of `names`.
inline std::map<std::string, std::string> FileParts(
    const uint8_t* input, size_t size, const std::vector<std::string>& names) {
  const absl::string_view text(reinterpret_cast<const char*>(input), size);
  std::map<std::string, std::string> parts;
  std::string* part = nullptr;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    bool begins = false;
    for (const std::string& name : names) {
      if (line != "=== " + name) continue;
      part = &parts[name];
      part->clear();
      begins = true;
    }
    if (part == nullptr || begins) continue;
    part->append(line.data(), line.size());
    part->push_back('\n');
  }
  return parts;
}

// A safetensors file: the text is the header, and as many zeros follow as its
// largest number before a bracket says.
inline std::string WithData(absl::string_view header) {
  constexpr size_t kMostBytes = 4096;
  size_t data_bytes = 0, number = 0;
  for (const char letter : header) {
    if (letter >= '0' && letter <= '9') {
      number = std::min(number * 10 + (letter - '0'), kMostBytes);
      continue;
    }
    if (letter == ']') data_bytes = std::max(data_bytes, number);
    number = 0;
  }
  return SafetensorsBytes(header, std::string(data_bytes, '\0'));
}

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_FILE_PARTS_H_
