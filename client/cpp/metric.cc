#include "client/cpp/metric.h"

#include <utility>

namespace phitap::client {
namespace {

struct MetricWriter {
  v1::Metric* message;

  void operator()(const Logit& logit) const {
    message->mutable_logit()->set_token_id(logit.token_id);
  }
  void operator()(const LogitDifference& difference) const {
    v1::LogitDifferenceMetric* kind = message->mutable_logit_difference();
    kind->set_token_id(difference.token_id);
    kind->set_baseline_token_id(difference.baseline_token_id);
  }
  void operator()(const Probability& probability) const {
    message->mutable_probability()->set_token_id(probability.token_id);
    message->mutable_probability()->set_log(probability.log);
  }
  void operator()(const KlFromRun& kl) const {
    message->mutable_kl()->set_from_run(kl.run);
  }
  void operator()(const OfNode& node) const { message->set_node(node.name); }
};

}  // namespace

v1::Metric ToMessage(const Metric& metric) {
  v1::Metric message;
  message.set_label(metric.label);
  message.set_run(metric.run);
  if (metric.position) message.set_position(*metric.position);
  std::visit(MetricWriter{&message}, metric.kind);
  return message;
}

v1::Gradient ToMessage(const Gradient& gradient) {
  v1::Gradient message;
  message.set_label(gradient.label);
  *message.mutable_of() = ToMessage(gradient.of);
  message.set_run(gradient.run);
  message.set_hook_points(gradient.hook_points);
  if (auto selection = ToMessage(gradient.selection)) {
    *message.mutable_selection() = *std::move(selection);
  }
  message.set_dtype(gradient.dtype);
  return message;
}

}  // namespace phitap::client
