// What this server was built from.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BUILD_FACTS_H_
#define PHITAP_SERVER_BUILD_FACTS_H_

#include <string>

#include "server/observe/metrics.h"

namespace phitap {

struct BuildFacts {
  std::string version;
  std::string libtorch;
  std::string grpc;
  // Short; "unknown" where the sources were no checkout.
  std::string commit;
};

BuildFacts ThisBuild();

// What --version prints.
std::string VersionText(const BuildFacts& facts);
// What is exposed of it.
MetricSample BuildSample(const BuildFacts& facts);

}  // namespace phitap

#endif  // PHITAP_SERVER_BUILD_FACTS_H_
