#include "client/cpp/program.h"

namespace phitap::client {
namespace {

struct OperationWriter {
  v1::Node* node;

  void operator()(const OfRun& value) const {
    *node->mutable_read() = ToMessage(value);
  }
  void operator()(const HostTensor& tensor) const {
    *node->mutable_tensor() = ToMessage(tensor);
  }
  void operator()(const Kept& kept) const { node->set_tensor_name(kept.name); }
  void operator()(const Constant& constant) const {
    node->set_constant(constant.name);
  }
  void operator()(double number) const { node->set_number(number); }
  void operator()(const NoiseLike& noise) const {
    *node->mutable_noise()->mutable_like() = ToMessage(noise.like);
    node->mutable_noise()->set_seed(noise.seed);
  }
  void operator()(const GradientOf& gradient) const {
    node->mutable_gradient()->set_of(gradient.of);
    *node->mutable_gradient()->mutable_with_respect_to() =
        ToMessage(gradient.with_respect_to);
  }
  void operator()(v1::Function function) const { node->set_function(function); }
  void operator()(const Linear&) const { node->mutable_linear(); }
  void operator()(const Dot&) const { node->mutable_dot(); }
  void operator()(const ReduceTo& reduce) const {
    node->mutable_reduce()->set_kind(reduce.kind);
    node->mutable_reduce()->mutable_dimensions()->Add(reduce.dimensions.begin(),
                                                      reduce.dimensions.end());
    node->mutable_reduce()->set_keep(reduce.keep);
  }
  void operator()(const Softmax& softmax) const {
    node->mutable_softmax()->set_log(softmax.log);
  }
  void operator()(const Clamp& clamp) const {
    v1::Clamp* message = node->mutable_clamp();
    if (clamp.low) message->set_low(*clamp.low);
    if (clamp.high) message->set_high(*clamp.high);
  }
  void operator()(const TopKOf& top) const {
    node->mutable_top_k()->set_k(top.k);
    node->mutable_top_k()->set_indices(top.indices);
  }
  void operator()(const Gather& gather) const {
    v1::Gather* message = node->mutable_gather();
    message->set_dimension(gather.dimension);
    if (gather.indices) *message->mutable_indices() = *gather.indices;
  }
  void operator()(const Scatter& scatter) const {
    node->mutable_scatter()->set_dimension(scatter.dimension);
    *node->mutable_scatter()->mutable_indices() = scatter.indices;
  }
  void operator()(const Reshape& reshape) const {
    node->mutable_reshape()->mutable_shape()->Add(reshape.shape.begin(),
                                                  reshape.shape.end());
  }
  void operator()(const Permute& permute) const {
    node->mutable_permute()->mutable_dimensions()->Add(
        permute.dimensions.begin(), permute.dimensions.end());
  }
  void operator()(const Concatenate& concatenate) const {
    node->mutable_concatenate()->set_dimension(concatenate.dimension);
  }
  void operator()(const Unembed& unembed) const {
    node->mutable_unembed()->set_skip_final_norm(unembed.skip_final_norm);
  }
  void operator()(const Encode& encode) const {
    *node->mutable_encode()->mutable_dictionary() =
        ToMessage(encode.dictionary);
  }
  void operator()(const Decode& decode) const {
    *node->mutable_decode()->mutable_dictionary() =
        ToMessage(decode.dictionary);
  }
  void operator()(const Latch&) const { node->mutable_latch(); }
  void operator()(const Round& round) const {
    node->mutable_round()->set_dtype(round.dtype);
  }
  void operator()(const Metric& metric) const {
    *node->mutable_metric() = ToMessage(metric);
  }
};

}  // namespace

v1::Node ToMessage(const Node& node) {
  v1::Node message;
  message.set_name(node.name);
  for (const std::string& input : node.inputs) message.add_inputs(input);
  std::visit(OperationWriter{&message}, node.operation);
  return message;
}

}  // namespace phitap::client
