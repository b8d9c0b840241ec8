// One clear sentence for every set of weights that cannot be served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/expected_tensors.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using absl::StatusCode;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kIndex[] = "model.safetensors.index.json";

struct BadWeights {
  std::string name;
  std::function<void(CheckpointFiles&)> spoil;
  std::string message;
  StatusCode code = StatusCode::kFailedPrecondition;
};

void PrintTo(const BadWeights& weights, std::ostream* out) {
  *out << weights.name;
}

class CheckpointRefuses : public testing::TestWithParam<BadWeights> {};

TEST_P(CheckpointRefuses, NamesTheTensorAndTheFault) {
  TempFolder folder;
  CheckpointFiles files = TinyCheckpoint(TinyKind::kWindow);
  GetParam().spoil(files);
  files.Write(folder);
  for (const WeightStorage storage :
       {WeightStorage::kMap, WeightStorage::kCopy}) {
    EXPECT_THAT(Checkpoint::Open(folder.path(), storage),
                StatusIs(GetParam().code, StartsWith(GetParam().message)));
  }
}

void Reshape(CheckpointFiles& files, absl::string_view name,
             std::vector<int64_t> shape) {
  files.Tensor(name).shape = std::move(shape);
}

void Restore(CheckpointFiles& files, absl::string_view name,
             std::string dtype) {
  RawTensor& tensor = files.Tensor(name);
  tensor.dtype = std::move(dtype);
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  tensor.bytes.resize(tensor.dtype == "F64" ? count * 8 : count);
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, CheckpointRefuses,
    testing::Values(
        BadWeights{"no_head",
                   [](auto& files) { files.Remove("lm_head.weight"); },
                   "model.safetensors: \"lm_head.weight\": is missing, and "
                   "config.json's tie_word_embeddings is not true; valid: "
                   "[96, 64] in float32"},
        BadWeights{"no_embedding",
                   [](auto& files) { files.Remove(kEmbeddingName); },
                   "model.safetensors: \"model.embed_tokens.weight\": is "
                   "missing"},
        BadWeights{
            "unfused",
            [](auto& files) {
              files.Tensor("model.layers.1.self_attn.qkv_proj.weight").name =
                  "model.layers.1.self_attn.q_proj.weight";
            },
            "model.safetensors: "
            "\"model.layers.1.self_attn.qkv_proj.weight\": is missing "
            "(nearest stored name: "
            "\"model.layers.1.self_attn.q_proj.weight\")"},
        BadWeights{"fewer_layers",
                   [](auto& files) { files.config["num_hidden_layers"] = 4; },
                   "model.safetensors: "
                   "\"model.layers.3.input_layernorm.weight\": is missing"},
        BadWeights{"flat",
                   [](auto& files) {
                     Reshape(files, "model.layers.2.mlp.down_proj.weight",
                             {64 * 96});
                   },
                   "model.safetensors: "
                   "\"model.layers.2.mlp.down_proj.weight\": has shape [6144]; "
                   "valid: [64, 96] in float32, float16 or bfloat16, by "
                   "config.json"},
        BadWeights{
            "transposed",
            [](auto& files) {
              Reshape(files, "model.layers.2.mlp.down_proj.weight", {96, 64});
            },
            "model.safetensors: "
            "\"model.layers.2.mlp.down_proj.weight\": has shape [96, "
            "64]"},
        BadWeights{"other_heads",
                   [](auto& files) { files.config["num_key_value_heads"] = 2; },
                   "model.safetensors: "
                   "\"model.layers.0.self_attn.qkv_proj.weight\": has shape "
                   "[192, 64]; valid: [128, 64]"},
        BadWeights{"other_vocabulary",
                   [](auto& files) { files.config["vocab_size"] = 97; },
                   "model.safetensors: \"model.embed_tokens.weight\": has "
                   "shape [96, 64]; valid: [97, 64]"},
        BadWeights{
            "double",
            [](auto& files) { Restore(files, kFinalNormName, "F64"); },
            "model.safetensors: \"model.norm.weight\": is stored as F64"},
        BadWeights{"int8", [](auto& files) { Restore(files, kHeadName, "I8"); },
                   "model.safetensors: \"lm_head.weight\": is stored as I8"},
        BadWeights{"float8",
                   [](auto& files) { Restore(files, kHeadName, "F8_E4M3"); },
                   "model.safetensors: \"lm_head.weight\": is stored as "
                   "F8_E4M3"},
        BadWeights{"bool",
                   [](auto& files) { Restore(files, kHeadName, "BOOL"); },
                   "model.safetensors: \"lm_head.weight\": is stored as BOOL"},
        BadWeights{
            "bias",
            [](auto& files) {
              files.tensors.push_back({"model.layers.0.self_attn.o_proj.bias",
                                       "F32",
                                       {64},
                                       std::string(256, '\0')});
            },
            "model.safetensors: \"model.layers.0.self_attn.o_proj.bias\": is a "
            "bias; valid: weights without biases"},
        BadWeights{"mixed_without_dtype",
                   [](auto& files) {
                     files.config.erase("torch_dtype");
                     RawTensor& norm = files.Tensor(kFinalNormName);
                     norm.dtype = "BF16";
                     norm.bytes.resize(norm.bytes.size() / 2);
                   },
                   "config.json: dtype: is missing, and tensors differ: "
                   "\"lm_head.weight\" is F32, \"model.norm.weight\" is BF16",
                   StatusCode::kInvalidArgument},
        BadWeights{
            "bytes_and_shape_disagree",
            [](auto& files) { files.Tensor(kFinalNormName).bytes += "0123"; },
            "model.safetensors: \"model.norm.weight\": data_offsets hold 260 "
            "bytes, dtype and shape need 256",
            StatusCode::kDataLoss}),
    [](const auto& info) { return info.param.name; });

struct BadIndex {
  std::string name;
  // Of a checkpoint in two shards, model-0000{1,2}-of-00002.safetensors.
  std::function<void(json&, const TempFolder&)> spoil;
  std::string message;
  StatusCode code = StatusCode::kDataLoss;
};

void PrintTo(const BadIndex& index, std::ostream* out) { *out << index.name; }

class ShardIndexRefuses : public testing::TestWithParam<BadIndex> {};

TEST_P(ShardIndexRefuses, NamesTheEntryAndTheFault) {
  TempFolder folder;
  TinyCheckpoint(TinyKind::kWindow).WriteSharded(folder, 2);
  std::ifstream file(folder.File(kIndex));
  json index = json::parse(file);
  GetParam().spoil(index, folder);
  folder.Write(kIndex, index.dump());
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(GetParam().code, StartsWith(GetParam().message)));
}

std::string EntryOfNorm(const std::string& rest) {
  return "model.safetensors.index.json: weight_map[\"model.norm.weight\"]: " +
         rest;
}

BadIndex NormIn(std::string name, json shard, std::string problem) {
  return {std::move(name),
          [shard](json& index, const TempFolder&) {
            index["weight_map"]["model.norm.weight"] = shard;
          },
          EntryOfNorm(problem)};
}

INSTANTIATE_TEST_SUITE_P(
    Entries, ShardIndexRefuses,
    testing::Values(
        NormIn("above", "../model-00002-of-00002.safetensors",
               "\"../model-00002-of-00002.safetensors\" is not a shard's name"),
        NormIn("absolute", "/etc/x.safetensors",
               "\"/etc/x.safetensors\" is not a shard's name"),
        NormIn("below", "sub/x.safetensors",
               "\"sub/x.safetensors\" is not a shard's name"),
        NormIn("other_file", "config.json",
               "\"config.json\" is not a shard's name"),
        NormIn("zero_byte", std::string("model\0.safetensors", 18),
               "\"model\\u0000.safetensors\" is not a shard's name"),
        NormIn("empty", "", "\"\" is not a shard's name"),
        NormIn("number", 2, "2 is not a shard's name"),
        NormIn("null", nullptr, "null is not a shard's name"),
        NormIn("wrong_shard", "model-00001-of-00002.safetensors",
               "\"model-00001-of-00002.safetensors\" has no such tensor; it is "
               "in \"model-00002-of-00002.safetensors\""),
        BadIndex{"missing_shard",
                 [](json&, const TempFolder& folder) {
                   std::filesystem::remove(
                       folder.File("model-00002-of-00002.safetensors"));
                 },
                 "model.safetensors.index.json: weight_map[",
                 StatusCode::kNotFound},
        BadIndex{"unknown_tensor",
                 [](json& index, const TempFolder&) {
                   index["weight_map"]["nowhere"] =
                       "model-00001-of-00002.safetensors";
                 },
                 "model.safetensors.index.json: weight_map[\"nowhere\"]: "
                 "\"model-00001-of-00002.safetensors\" has no such tensor"},
        BadIndex{
            "no_map",
            [](json& index, const TempFolder&) { index.erase("weight_map"); },
            "model.safetensors.index.json: weight_map: is missing"},
        BadIndex{"empty_map",
                 [](json& index, const TempFolder&) {
                   index["weight_map"] = json::object();
                 },
                 "model.safetensors.index.json: weight_map: {}"},
        BadIndex{"list_for_map",
                 [](json& index, const TempFolder&) {
                   index["weight_map"] = json::array({1});
                 },
                 "model.safetensors.index.json: weight_map: [1]"},
        BadIndex{"list_for_index",
                 [](json& index, const TempFolder&) { index = json::array(); },
                 "model.safetensors.index.json: [] is not an object"},
        BadIndex{"same_tensor_twice",
                 [](json&, const TempFolder& folder) {
                   std::filesystem::copy_file(
                       folder.File("model-00001-of-00002.safetensors"),
                       folder.File("model-00002-of-00002.safetensors"),
                       std::filesystem::copy_options::overwrite_existing);
                 },
                 "model-00002-of-00002.safetensors: "},
        BadIndex{"truncated_shard",
                 [](json&, const TempFolder& folder) {
                   std::filesystem::resize_file(
                       folder.File("model-00002-of-00002.safetensors"), 3000);
                 },
                 "model-00002-of-00002.safetensors: \""}),
    [](const auto& info) { return info.param.name; });

TEST(Checkpoint, RefusesAConfigWithoutWeights) {
  TempFolder folder;
  folder.Write("config.json", TinyConfig(TinyKind::kWindow).dump());
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(StatusCode::kNotFound,
                       StartsWith("model.safetensors: is not in ")));
}

TEST(Checkpoint, SaysWhichOtherWeightsAConfigHasBesideIt) {
  for (const char* name :
       {"model.onnx", "phi3.gguf", "pytorch_model.bin", "w.safetensors"}) {
    TempFolder folder;
    folder.Write("config.json", TinyConfig(TinyKind::kWindow).dump());
    folder.Write(name, "x");
    EXPECT_THAT(Checkpoint::Open(folder.path()),
                StatusIs(StatusCode::kFailedPrecondition,
                         AllOf(StartsWith("model.safetensors: is not in "),
                               HasSubstr(name),
                               HasSubstr("valid: model.safetensors or"))));
  }
}

TEST(Checkpoint, RefusesALinkThatLeadsNowhere) {
  TempFolder folder;
  TinyCheckpoint(TinyKind::kWindow).Write(folder);
  std::filesystem::remove(folder.File("model.safetensors"));
  std::filesystem::create_symlink("/nonexistent",
                                  folder.File("model.safetensors"));
  EXPECT_FALSE(Checkpoint::Open(folder.path()).ok());
}

}  // namespace
}  // namespace phitap
