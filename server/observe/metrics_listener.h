// Answers HTTP with the server's metrics, as Prometheus asks for them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_OBSERVE_METRICS_LISTENER_H_
#define PHITAP_SERVER_OBSERVE_METRICS_LISTENER_H_

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/observe/metrics.h"

namespace phitap {

struct MetricsListenerOptions {
  // HOST:PORT; port 0 takes a free one.
  std::string listen;
  // Outlives the listener.
  const Metrics* metrics = nullptr;
  // What it reads outlives the listener.
  SampleSource samples;
};

// GET /metrics, without encryption: names, counts and times, nothing that a
// caller has sent. Thread-safe.
class MetricsListener {
 public:
  // INVALID_ARGUMENT against `--metrics-listen` where it cannot.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      MetricsListenerOptions options);

  // HOST:PORT, with the port that was taken.
  const std::string& address() const { return address_; }

 private:
  MetricsListener(std::shared_ptr<prometheus::Collectable> page,
                  std::unique_ptr<prometheus::Exposer> exposer,
                  std::string address);

  const std::shared_ptr<prometheus::Collectable> page_;
  const std::unique_ptr<prometheus::Exposer> exposer_;
  const std::string address_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_OBSERVE_METRICS_LISTENER_H_
