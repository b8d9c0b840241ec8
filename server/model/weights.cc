// SPDX-License-Identifier: Apache-2.0
#include "server/model/weights.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/base/host_tensor.h"
#include "server/base/status_macros.h"
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

absl::StatusOr<Weights> LoadWeights(const Checkpoint& checkpoint, DType dtype,
                                    WeightPacking packing,
                                    const WeightProgress& on_progress) {
  const at::ScalarType type = ScalarTypeOf(dtype);
  const bool packs = packing == WeightPacking::kPacked && WorthPacking(type);
  const auto load = [&](absl::string_view name) {
    return Load(checkpoint.Tensor(name), type);
  };
  const auto load_matrix = [&](absl::string_view name) {
    Matrix matrix = {.stored = load(name)};
    if (packs) {
      Pack(matrix);
      checkpoint.GiveBackPages(name);
    }
    return matrix;
  };
  Weights weights{.embedding = load(kEmbeddingName),
                  .final_norm = load(kFinalNormName)};
  const int64_t layers = checkpoint.spec().num_layers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto part = [&](absl::string_view name) {
      return load(LayerTensorName(layer, name));
    };
    const auto matrix = [&](absl::string_view name) {
      return load_matrix(LayerTensorName(layer, name));
    };
    weights.layers.push_back({
        .input_norm = part("input_layernorm"),
        .qkv_proj = matrix("self_attn.qkv_proj"),
        .o_proj = matrix("self_attn.o_proj"),
        .post_attention_norm = part("post_attention_layernorm"),
        .gate_up_proj = matrix("mlp.gate_up_proj"),
        .down_proj = matrix("mlp.down_proj"),
    });
    if (on_progress == nullptr) continue;
    RETURN_IF_ERROR(on_progress(static_cast<double>(layer + 1) / layers));
  }
  if (checkpoint.spec().tied_head) {
    weights.head.stored = weights.embedding;
    if (packs) Pack(weights.head);
  } else {
    weights.head = load_matrix(kHeadName);
  }
  return weights;
}

void Unpack(Weights& weights) {
  for (LayerWeights& layer : weights.layers) {
    for (Matrix* matrix : {&layer.qkv_proj, &layer.o_proj, &layer.gate_up_proj,
                           &layer.down_proj}) {
      matrix->packed.reset();
    }
  }
  weights.head.packed.reset();
}

}  // namespace phitap
