// Runs forwards of one checkpoint as the lines of standard input ask, and hands
// over every value that they show: the tests' window into the model.
//
// usage: forward_dump CHECKPOINT DTYPE
// Each line of input is a JSON object:
//   rows: [{ids, position_ids?, hidden?, layer_count?, tail?, norm?, head?}]
//   numerics: "causal" | "transformers"; attention: "sdpa" | "eager"
//   threads: number; hooks: [names], all where absent; out: FILE
// Each line of output is one as well: {tensors: [{row, hook, layer, positions,
// dtype, shape, offset}]}, the bytes being in FILE.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "server/model/phi3.h"
#include "server/model/torch_guard.h"
#include "server/spec/hook_point.h"
#include "tests/support/recording_hooks.h"

namespace phitap {
namespace {

using nlohmann::json;

// What the spans of a ForwardRow point to.
struct OwnedRow {
  std::vector<int32_t> ids;
  std::vector<int64_t> position_ids, hidden, tail, norm, head;
  bool has_position_ids = false;
  int layer_count = 0;

  ForwardRow View() const {
    return {.ids = ids,
            .position_ids = position_ids,
            .has_position_ids = has_position_ids,
            .hidden_positions = hidden,
            .layer_count = layer_count,
            .tail_positions = tail,
            .norm_positions = norm,
            .head_positions = head};
  }
};

OwnedRow ReadRow(const json& row, const ModelSpec& spec) {
  OwnedRow read{.ids = row.at("ids")};
  std::vector<int64_t> all(read.ids.size());
  std::iota(all.begin(), all.end(), 0);
  read.position_ids = row.value("position_ids", all);
  read.has_position_ids = row.contains("position_ids");
  read.hidden = row.value("hidden", std::vector<int64_t>());
  read.layer_count =
      row.value("layer_count", static_cast<int>(spec.num_layers));
  read.tail = row.value("tail", all);
  read.norm = row.value("norm", all);
  read.head = row.value("head", all);
  return read;
}

DType DTypeNamed(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (std::string(Name(dtype)) == name) return dtype;
  }
  throw std::invalid_argument("dtype " + name);
}

json Answer(const json& request, const Phi3& model) {
  std::vector<OwnedRow> owned;
  std::vector<ForwardRow> rows;
  std::vector<int64_t> token_counts;
  for (const json& row : request.at("rows")) {
    owned.push_back(ReadRow(row, model.spec()));
  }
  for (const OwnedRow& row : owned) {
    rows.push_back(row.View());
    token_counts.push_back(static_cast<int64_t>(row.ids.size()));
  }
  const auto names = request.value("hooks", std::vector<std::string>());
  const std::set<std::string> wanted(names.begin(), names.end());
  RecordingHooks hooks(token_counts, [&](Hook hook) {
    return wanted.empty() || wanted.contains(std::string(EntryOf(hook).name));
  });
  at::set_num_threads(request.value("threads", 2));
  model.Forward(rows,
                {.numerics = request.value("numerics", "causal") == "causal"
                                 ? ForwardNumerics::kCausal
                                 : ForwardNumerics::kTransformers,
                 .attention = request.value("attention", "sdpa") == "sdpa"
                                  ? ForwardAttention::kSdpa
                                  : ForwardAttention::kEager},
                hooks);

  std::ofstream out(request.at("out").get<std::string>(), std::ios::binary);
  json tensors = json::array();
  int64_t offset = 0;
  for (const auto& [key, record] : hooks.records()) {
    const at::Tensor value = record.value.contiguous();
    tensors.push_back({{"row", key.row},
                       {"hook", std::string(EntryOf(key.hook).name)},
                       {"layer", key.layer},
                       {"positions", record.positions},
                       {"dtype", c10::toString(value.scalar_type())},
                       {"shape", value.sizes().vec()},
                       {"offset", offset}});
    const auto size = static_cast<int64_t>(value.nbytes());
    out.write(static_cast<const char*>(value.const_data_ptr()), size);
    offset += size;
  }
  return {{"tensors", tensors}};
}

int Main(const std::string& folder, const std::string& dtype) {
  const auto checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) {
    std::cerr << checkpoint.status() << "\n";
    return 1;
  }
  const auto model = Phi3::Load(*checkpoint, DTypeNamed(dtype));
  if (!model.ok()) {
    std::cerr << model.status() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    const absl::Status status = RunGuarded([&] {
      answer = Answer(json::parse(line), **model);
      return absl::OkStatus();
    });
    if (!status.ok()) answer = {{"error", status.ToString()}};
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace phitap

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: forward_dump CHECKPOINT DTYPE\n";
    return 2;
  }
  return phitap::Main(argv[1], argv[2]);
}
