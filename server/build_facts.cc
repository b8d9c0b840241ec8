#include "server/build_facts.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"

namespace phitap {

BuildFacts ThisBuild() {
  return {.version = PHITAP_VERSION,
          .libtorch = PHITAP_LIBTORCH_VERSION,
          .grpc = grpc::Version(),
          .commit = PHITAP_COMMIT};
}

std::string VersionText(const BuildFacts& facts) {
  return absl::StrCat("phitapd ", facts.version, " (commit ", facts.commit,
                      ")\nlibtorch ", facts.libtorch, "\ngRPC ", facts.grpc);
}

MetricSample BuildSample(const BuildFacts& facts) {
  return {
      .metric = Metric::kBuild,
      .label_values = {facts.version, facts.libtorch, facts.grpc, facts.commit},
      .value = 1};
}

}  // namespace phitap
