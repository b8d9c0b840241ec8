// SPDX-License-Identifier: Apache-2.0
#include "server/model/weights.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/base/host_tensor.h"
#include "server/checkpoint/expected_tensors.h"

namespace phitap {
namespace {

at::Tensor View(const HostTensor& stored) {
  // libtorch has no read-only tensors; nothing writes to a weight.
  auto* const bytes = const_cast<std::byte*>(stored.bytes.data());
  return at::from_blob(
      bytes, stored.shape, [owner = stored.owner](void*) {},
      at::TensorOptions(ScalarTypeOf(stored.dtype)));
}

at::Tensor Load(const HostTensor& stored, at::ScalarType dtype) {
  at::Tensor weight = View(stored);
  const auto address = reinterpret_cast<uintptr_t>(weight.const_data_ptr());
  // A header of odd length leaves elements astride their natural boundaries.
  if (address % weight.element_size() != 0) weight = weight.clone();
  return weight.to(dtype);
}

}  // namespace

at::ScalarType ScalarTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kI64:
      return at::kLong;
    case DType::kI32:
      return at::kInt;
    case DType::kBool:
      return at::kBool;
  }
  TORCH_CHECK(false, "unknown element type");
}

Weights LoadWeights(const Checkpoint& checkpoint, DType dtype) {
  const at::ScalarType type = ScalarTypeOf(dtype);
  const auto load = [&](absl::string_view name) {
    return Load(checkpoint.Tensor(name), type);
  };
  Weights weights{.embedding = load(kEmbeddingName),
                  .final_norm = load(kFinalNormName)};
  for (int64_t layer = 0; layer < checkpoint.spec().num_layers; ++layer) {
    const auto part = [&](absl::string_view name) {
      return load(LayerTensorName(layer, name));
    };
    weights.layers.push_back({
        .input_norm = part("input_layernorm"),
        .qkv_proj = part("self_attn.qkv_proj"),
        .o_proj = part("self_attn.o_proj"),
        .post_attention_norm = part("post_attention_layernorm"),
        .gate_up_proj = part("mlp.gate_up_proj"),
        .down_proj = part("mlp.down_proj"),
    });
  }
  weights.head =
      checkpoint.spec().tied_head ? weights.embedding : load(kHeadName);
  return weights;
}

}  // namespace phitap
