// The gRPC service config that README.md gives to clients.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_README_CONFIG_H_
#define PHITAP_TESTS_SUPPORT_README_CONFIG_H_

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace phitap {

// Its text as JSON. Includers define PHITAP_README, the file's path.
inline std::string ReadmeServiceConfig() {
  std::ifstream file(PHITAP_README);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string fence = "```json\n";
  const size_t inside = text.find("\"retryPolicy\"");
  const size_t begin = text.rfind(fence, inside);
  const size_t end = text.find("```", inside);
  if (inside == std::string::npos || begin == std::string::npos ||
      end == std::string::npos) {
    throw std::runtime_error("no service config in " PHITAP_README);
  }
  return text.substr(begin + fence.size(), end - begin - fence.size());
}

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_README_CONFIG_H_
