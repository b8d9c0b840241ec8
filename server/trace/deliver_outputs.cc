// SPDX-License-Identifier: Apache-2.0
#include "server/trace/deliver_outputs.h"

#include <optional>
#include <utility>

#include "server/model/torch_guard.h"

namespace phitap {
namespace {

void PutOutput(const PlannedOutput& output, NodeValues& values,
               ResultSink& sink) {
  RequestMemory& memory = values.memory();
  std::optional<HostTensor> tensor =
      memory.outputs().Put(output, values.Value(output.node));
  if (tensor) memory.Deliver(sink, output.tensor, *std::move(tensor));
}

}  // namespace

absl::Status DeliverOutputs(NodeValues& values, ResultSink& sink) {
  absl::Status status;
  for (const int index : values.memory().nodes().TakeReadyOutputs()) {
    const PlannedOutput& output = values.plan().outputs[index];
    status.Update(RunGuarded([&] {
      PutOutput(output, values, sink);
      return absl::OkStatus();
    }));
    values.memory().nodes().Release({output.node});
  }
  return status;
}

}  // namespace phitap
