// Values that the server computes from those of the runs, written shortly.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_PROGRAM_H_
#define PHITAP_CLIENT_CPP_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/cpp/edit.h"
#include "client/cpp/metric.h"
#include "client/cpp/selection.h"
#include "client/cpp/source.h"
#include "phitap/v1/program.pb.h"

namespace phitap::client {

// Operations; v1::Node's comments say what each computes from its inputs. As a
// node, OfRun reads, HostTensor, Kept, Constant and a number are values,
// v1::Function works element by element and Clamp bounds.

// Standard normal noise in the place of a value.
struct NoiseLike {
  OfRun like;
  uint64_t seed = 0;
};
// The gradient of a node of one element.
struct GradientOf {
  std::string of;
  OfRun with_respect_to;
};
struct Linear {};
struct Dot {};
struct ReduceTo {
  v1::ReduceKind kind = v1::REDUCE_KIND_UNSPECIFIED;
  // Empty means all.
  std::vector<int32_t> dimensions;
  bool keep = false;
};
struct Softmax {
  bool log = false;
};
struct TopKOf {
  int32_t k = 1;
  bool indices = false;
};
struct Gather {
  int32_t dimension = -1;
  // Unset where the second input says.
  std::optional<v1::IndexSet> indices;
};
struct Scatter {
  int32_t dimension = -1;
  v1::IndexSet indices;
};
struct Reshape {
  std::vector<int64_t> shape;
};
struct Permute {
  std::vector<int32_t> dimensions;
};
struct Concatenate {
  int32_t dimension = 0;
};
struct Unembed {
  bool skip_final_norm = false;
};
struct Encode {
  Dictionary dictionary;
};
struct Decode {
  Dictionary dictionary;
};
struct Latch {};
struct Round {
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
};

using Operation =
    std::variant<OfRun, HostTensor, Kept, Constant, double, NoiseLike,
                 GradientOf, v1::Function, Linear, Dot, ReduceTo, Softmax,
                 Clamp, TopKOf, Gather, Scatter, Reshape, Permute, Concatenate,
                 Unembed, Encode, Decode, Latch, Round, Metric>;

// `{.name = "norm", .inputs = {"x"},
//   .operation = ReduceTo{.kind = v1::REDUCE_KIND_NORM}}`
struct Node {
  std::string name;
  std::vector<std::string> inputs;
  Operation operation;
};

v1::Node ToMessage(const Node& node);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_PROGRAM_H_
