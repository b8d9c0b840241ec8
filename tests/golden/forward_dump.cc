// Runs forwards of one checkpoint as the lines of standard input ask, and hands
// over every value that they show: the tests' window into the model.
//
// usage: forward_dump CHECKPOINT DTYPE
// Each line of input is a JSON object:
//   rows: [{ids, position_ids?, hidden?, layer_count?, tail?, norm?, head?}]
//   steps: [number], how many of the tokens each forward takes, going on from
//     the cache of those before; all at once and no cache where absent
//   numerics: "causal" | "transformers"; attention: "sdpa" | "eager"
//   threads: number; hooks: [names], all where absent; out: FILE
// Each line of output is one as well: {tensors: [{step, row, hook, layer,
// positions, dtype, shape, offset}]}, the bytes being in FILE.
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

#include "server/model/key_value_cache.h"
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

  // The tokens [begin, begin + count) and all that is asked of them.
  ForwardRow Part(int64_t begin, int64_t count, KeyValueCache& cache) const {
    ForwardRow part = View();
    part.first_position = begin;
    part.cache = &cache;
    part.ids = part.ids.subspan(begin, count);
    for (auto* const span : {&part.position_ids, &part.tail_positions,
                             &part.norm_positions, &part.head_positions}) {
      *span = span->subspan(begin, count);
    }
    return part;
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

ForwardOptions OptionsOf(const json& request) {
  return {.numerics = request.value("numerics", "causal") == "causal"
                          ? ForwardNumerics::kCausal
                          : ForwardNumerics::kTransformers,
          .attention = request.value("attention", "sdpa") == "sdpa"
                           ? ForwardAttention::kSdpa
                           : ForwardAttention::kEager};
}

// Tensors one after another in a file, and where each is.
class Dump {
 public:
  explicit Dump(const std::string& path) : out_(path, std::ios::binary) {}

  void Add(int step, const RecordingHooks& hooks) {
    for (const auto& [key, record] : hooks.records()) {
      const at::Tensor value = record.value.contiguous();
      tensors_.push_back({{"step", step},
                          {"row", key.row},
                          {"hook", std::string(EntryOf(key.hook).name)},
                          {"layer", key.layer},
                          {"positions", record.positions},
                          {"dtype", c10::toString(value.scalar_type())},
                          {"shape", value.sizes().vec()},
                          {"offset", offset_}});
      const auto size = static_cast<int64_t>(value.nbytes());
      out_.write(static_cast<const char*>(value.const_data_ptr()), size);
      offset_ += size;
    }
  }
  json tensors() const { return tensors_; }

 private:
  std::ofstream out_;
  json tensors_ = json::array();
  int64_t offset_ = 0;
};

json Answer(const json& request, const Phi3& model) {
  std::vector<OwnedRow> owned;
  for (const json& row : request.at("rows")) {
    owned.push_back(ReadRow(row, model.spec()));
  }
  const auto names = request.value("hooks", std::vector<std::string>());
  const std::set<std::string> wanted(names.begin(), names.end());
  at::set_num_threads(request.value("threads", 2));
  Dump dump(request.at("out").get<std::string>());
  const auto forward = [&](int step, const std::vector<ForwardRow>& rows) {
    std::vector<int64_t> ends;
    for (const ForwardRow& row : rows) {
      ends.push_back(row.first_position + static_cast<int64_t>(row.ids.size()));
    }
    RecordingHooks hooks(ends, [&](Hook hook) {
      return wanted.empty() || wanted.contains(std::string(EntryOf(hook).name));
    });
    model.Forward(rows, OptionsOf(request), hooks);
    dump.Add(step, hooks);
  };

  std::vector<ForwardRow> rows;
  if (!request.contains("steps")) {
    for (const OwnedRow& row : owned) rows.push_back(row.View());
    forward(0, rows);
    return {{"tensors", dump.tensors()}};
  }
  std::vector<KeyValueCache> caches(owned.size(), KeyValueCache(model.spec()));
  int64_t begin = 0;
  for (int step = 0; const int64_t count : request.at("steps")) {
    rows.clear();
    for (size_t i = 0; i < owned.size(); ++i) {
      rows.push_back(owned[i].Part(begin, count, caches[i]));
    }
    forward(step++, rows);
    begin += count;
  }
  return {{"tensors", dump.tensors()}};
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
