#include "client/cpp/sweep.h"

namespace phitap::client {
namespace {

struct AxisWriter {
  v1::SweepAxis* message;

  void operator()(const OverLayers& layers) const {
    message->mutable_layers()->set_window(layers.window);
  }
  void operator()(const OverPositions& positions) const {
    v1::PositionsAxis* axis = message->mutable_positions();
    if (positions.positions) *axis->mutable_positions() = *positions.positions;
  }
  void operator()(const OverHeads& heads) const {
    v1::HeadsAxis* axis = message->mutable_heads();
    if (heads.heads) *axis->mutable_heads() = *heads.heads;
  }
  void operator()(const OverScales& scales) const {
    message->mutable_scales()->mutable_scales()->Add(scales.scales.begin(),
                                                     scales.scales.end());
  }
};

}  // namespace

v1::SweepAxis ToMessage(const Axis& axis) {
  v1::SweepAxis message;
  std::visit(AxisWriter{&message}, axis);
  return message;
}

v1::Sweep ToMessage(const Sweep& sweep) {
  v1::Sweep message;
  message.set_label(sweep.label);
  message.set_run(sweep.run);
  for (const Edit& edit : sweep.edits) {
    *message.add_interventions() = ToMessage(edit);
  }
  for (const Axis& axis : sweep.axes) *message.add_axes() = ToMessage(axis);
  for (const Metric& metric : sweep.metrics) {
    *message.add_metrics() = ToMessage(metric);
  }
  return message;
}

}  // namespace phitap::client
