// SPDX-License-Identifier: Apache-2.0
#include "server/model/rotary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>

namespace phitap {
namespace {

// theta^(2j/R), in the operations of transformers: their roundings count.
at::Tensor Wavelengths(const ModelSpec& spec) {
  const at::Tensor even = at::arange(0, spec.rotary_dims, 2, at::kFloat);
  return at::pow(at::Scalar(spec.rope_theta), even / spec.rotary_dims);
}

at::Tensor InverseFrequencies(const at::Tensor& wavelengths,
                              const std::vector<float>& factors) {
  at::Tensor list = at::empty({static_cast<int64_t>(factors.size())},
                              at::TensorOptions(at::kFloat));
  std::copy(factors.begin(), factors.end(), list.data_ptr<float>());
  return (list * wavelengths).reciprocal();
}

}  // namespace

Rotary::Rotary(const ModelSpec& spec) {
  const at::Tensor wavelengths = Wavelengths(spec);
  if (!spec.longrope) {
    short_inverse_frequencies_ = wavelengths.reciprocal();
    return;
  }
  original_max_positions_ = spec.longrope->original_max_positions;
  attention_factor_ = spec.longrope->attention_factor;
  short_inverse_frequencies_ =
      InverseFrequencies(wavelengths, spec.longrope->short_factor);
  long_inverse_frequencies_ =
      InverseFrequencies(wavelengths, spec.longrope->long_factor);
}

bool Rotary::TakesLongFactors(int64_t largest_position) const {
  return original_max_positions_ > 0 &&
         largest_position + 1 > original_max_positions_;
}

RotaryTables Rotary::Tables(const std::vector<RotaryToken>& tokens,
                            at::ScalarType dtype) const {
  const auto count = static_cast<int64_t>(tokens.size());
  at::Tensor positions = at::empty({count, 1}, at::TensorOptions(at::kLong));
  at::Tensor is_long = at::empty({count, 1}, at::TensorOptions(at::kBool));
  for (int64_t i = 0; i < count; ++i) {
    positions.data_ptr<int64_t>()[i] = tokens[i].position;
    is_long.data_ptr<bool>()[i] = tokens[i].long_factors;
  }
  const at::Tensor frequencies =
      long_inverse_frequencies_.defined()
          ? at::where(is_long, long_inverse_frequencies_,
                      short_inverse_frequencies_)
          : short_inverse_frequencies_;
  const at::Tensor angles = positions.to(at::kFloat) * frequencies;  // [T, R/2]
  const at::Tensor both = at::cat({angles, angles}, -1);             // [T, R]
  return {.cos = (both.cos() * attention_factor_).to(dtype),
          .sin = (both.sin() * attention_factor_).to(dtype)};
}

}  // namespace phitap
