#include "client/cpp/source.h"

#include "client/cpp/wire_dtype.h"

namespace phitap::client {
namespace {

v1::MeanOfRuns MeanMessage(const MeanOfRuns& mean) {
  v1::MeanOfRuns message;
  for (const std::string& run : mean.runs) message.add_runs(run);
  message.set_hook_point(mean.hook_point);
  if (auto selection = ToMessage(mean.selection)) {
    *message.mutable_selection() = *std::move(selection);
  }
  message.set_over_positions(mean.over_positions);
  return message;
}

struct SourceWriter {
  v1::EditSource* message;

  void operator()(double number) const { message->set_number(number); }
  void operator()(const HostTensor& tensor) const {
    *message->mutable_tensor() = ToMessage(tensor);
  }
  void operator()(const OfRun& value) const {
    *message->mutable_run() = ToMessage(value);
  }
  void operator()(const MeanOfRuns& mean) const {
    *message->mutable_mean_of_runs() = MeanMessage(mean);
  }
  void operator()(const Kept& kept) const {
    message->set_tensor_name(kept.name);
  }
  void operator()(const Constant& constant) const {
    message->set_constant(constant.name);
  }
  void operator()(const OfNode& node) const { message->set_node(node.name); }
};

}  // namespace

v1::Tensor ToMessage(const HostTensor& tensor) {
  v1::Tensor message;
  message.set_dtype(ToWire(tensor.dtype));
  message.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  message.set_data(tensor.bytes.data(), tensor.bytes.size());
  return message;
}

v1::RunValue ToMessage(const OfRun& value) {
  v1::RunValue message;
  message.set_run(value.run);
  message.set_hook_point(value.hook_point);
  if (auto selection = ToMessage(value.selection)) {
    *message.mutable_selection() = *std::move(selection);
  }
  message.set_read_time(value.read_time);
  return message;
}

v1::EditSource ToMessage(const Source& source) {
  v1::EditSource message;
  std::visit(SourceWriter{&message}, source);
  return message;
}

}  // namespace phitap::client
