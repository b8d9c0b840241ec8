#include "server/observe/metrics_listener.h"

#include <prometheus/metric_family.h>

#include <exception>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"

namespace phitap {
namespace {

class MetricsPage final : public prometheus::Collectable {
 public:
  explicit MetricsPage(MetricsListenerOptions options)
      : options_(std::move(options)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families =
        options_.metrics->Collect();
    std::vector<prometheus::MetricFamily> read = ToFamilies(options_.samples());
    families.insert(families.end(), std::make_move_iterator(read.begin()),
                    std::make_move_iterator(read.end()));
    return families;
  }

 private:
  const MetricsListenerOptions options_;
};

std::string HostOf(const std::string& listen) {
  return listen.substr(0, listen.rfind(':'));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    MetricsListenerOptions options) {
  const std::string listen = options.listen;
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(listen);
    auto page = std::make_shared<MetricsPage>(std::move(options));
    exposer->RegisterCollectable(page);
    const int port = exposer->GetListeningPorts().at(0);
    return std::unique_ptr<MetricsListener>(
        new MetricsListener(std::move(page), std::move(exposer),
                            absl::StrCat(HostOf(listen), ":", port)));
  } catch (const std::exception& error) {
    return InvalidField({.field = "--metrics-listen",
                         .problem = absl::StrCat("cannot listen on ", listen,
                                                 " (", error.what(), ")"),
                         .valid = "HOST:PORT (port 0 takes a free one)"});
  }
}

MetricsListener::MetricsListener(std::shared_ptr<prometheus::Collectable> page,
                                 std::unique_ptr<prometheus::Exposer> exposer,
                                 std::string address)
    : page_(std::move(page)),
      exposer_(std::move(exposer)),
      address_(std::move(address)) {}

}  // namespace phitap
