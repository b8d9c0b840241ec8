// SPDX-License-Identifier: Apache-2.0
#include "server/model/mlp.h"

#include <cstdint>
#include <utility>

#include "server/model/arithmetic.h"

namespace phitap {

at::Tensor Mlp(const LayerWeights& weights, at::Tensor x, const Pass& pass) {
  const int64_t width = pass.spec.intermediate_size;
  const Arithmetic& numerics = pass.numerics;

  x = pass.Show(Hook::kMlpInput, std::move(x));  // [T, D]
  at::Tensor gate_up = numerics.Linear(x, weights.gate_up_proj);
  gate_up = pass.Show(Hook::kMlpGateUp, gate_up);  // [T, 2F]
  at::Tensor gate = gate_up.narrow(1, 0, width);
  at::Tensor up = gate_up.narrow(1, width, width);
  gate = pass.Show(Hook::kMlpGate, gate);  // [T, F]
  up = pass.Show(Hook::kMlpUp, up);        // [T, F]

  at::Tensor neurons;
  if (pass.Wants(Hook::kMlpActivation)) {
    neurons = up * pass.Show(Hook::kMlpActivation, numerics.Silu(gate));
  } else {
    neurons = numerics.SwiGlu(gate, up);
  }
  neurons = pass.Show(Hook::kMlpNeurons, neurons);  // [T, F]
  at::Tensor output = numerics.Linear(neurons, weights.down_proj);
  return pass.Show(Hook::kMlpOutput, output);  // [T, D]
}

}  // namespace phitap
