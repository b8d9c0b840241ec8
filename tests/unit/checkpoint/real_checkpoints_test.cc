// The configs and tensor lists of the checkpoints as published, where the
// public files are at hand (PHITAP_TEST_DATA); the tiny checkpoints cover the
// same without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/config.h"
#include "server/checkpoint/expected_tensors.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using nlohmann::json;
using testing::IsEmpty;

// A folder under the test data, else none and a line that says what is missing.
std::optional<std::string> DataFolder(absl::string_view name) {
  const std::optional<std::string> data = TestDataFolder();
  if (data) return absl::StrCat(*data, "/real/", name);
  std::cout << "Nothing to check: needs real/" << name
            << " in the folder that PHITAP_TEST_DATA names.\n";
  return std::nullopt;
}

struct Published {
  std::string folder;
  int64_t hidden_size, num_layers, num_heads, num_kv_heads, head_dim,
      rotary_dims, intermediate_size, vocab_size, max_positions;
  std::optional<int64_t> window;
  double theta;
  bool longrope, tied;
  std::optional<int64_t> pad_id;
  std::vector<int64_t> eos_ids;
};

const Published kPublished[] = {
    {"phi-3-mini-4k-instruct",
     3072,
     32,
     32,
     32,
     96,
     96,
     8192,
     32064,
     4096,
     2047,
     1e4,
     false,
     false,
     32000,
     {32000}},
    {"phi-3-mini-128k-instruct",
     3072,
     32,
     32,
     32,
     96,
     96,
     8192,
     32064,
     131072,
     262144,
     1e4,
     true,
     false,
     32000,
     {32000}},
    {"phi-3.5-mini-instruct",
     3072,
     32,
     32,
     32,
     96,
     96,
     8192,
     32064,
     131072,
     262144,
     1e4,
     true,
     false,
     32000,
     {32007, 32001, 32000}},
    {"phi-3-medium-4k-instruct",
     5120,
     40,
     40,
     10,
     128,
     128,
     17920,
     32064,
     4096,
     2047,
     1e4,
     false,
     false,
     32000,
     {32000}},
    {"phi-3-medium-128k-instruct",
     5120,
     40,
     40,
     10,
     128,
     128,
     17920,
     32064,
     131072,
     131072,
     1e4,
     true,
     false,
     std::nullopt,
     {32000}},
    {"phi-4-mini-instruct",
     3072,
     32,
     24,
     8,
     128,
     96,
     8192,
     200064,
     131072,
     262144,
     1e4,
     true,
     true,
     199999,
     {200020, 199999}},
    {"phi-4",
     5120,
     40,
     40,
     10,
     128,
     128,
     17920,
     100352,
     16384,
     std::nullopt,
     250000.0,
     false,
     false,
     100349,
     {100265}},
};

void ExpectSpec(const ModelSpec& spec, const Published& published) {
  EXPECT_EQ(spec.hidden_size, published.hidden_size);
  EXPECT_EQ(spec.num_layers, published.num_layers);
  EXPECT_EQ(spec.num_heads, published.num_heads);
  EXPECT_EQ(spec.num_kv_heads, published.num_kv_heads);
  EXPECT_EQ(spec.head_dim, published.head_dim);
  EXPECT_EQ(spec.rotary_dims, published.rotary_dims);
  EXPECT_EQ(spec.intermediate_size, published.intermediate_size);
  EXPECT_EQ(spec.vocab_size, published.vocab_size);
  EXPECT_EQ(spec.max_positions, published.max_positions);
  EXPECT_EQ(spec.sliding_window, published.window);
  EXPECT_EQ(spec.rms_norm_eps, 1e-5);
  EXPECT_EQ(spec.rope_theta, published.theta);
  EXPECT_EQ(spec.tied_head, published.tied);
  EXPECT_EQ(spec.dtype, DType::kBF16);
  EXPECT_EQ(spec.pad_id, published.pad_id);
  EXPECT_EQ(spec.eos_ids, published.eos_ids);
  ASSERT_EQ(spec.longrope.has_value(), published.longrope);
  if (!spec.longrope) return;
  EXPECT_EQ(spec.longrope->original_max_positions, 4096);
  EXPECT_EQ(spec.longrope->attention_factor, 1.1902380714238083);
  EXPECT_EQ(static_cast<int64_t>(spec.longrope->short_factor.size()),
            spec.rotary_dims / 2);
}

TEST(RealCheckpoints, ReadEveryPublishedConfig) {
  const auto configs = DataFolder("configs");
  if (!configs) return;
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.folder);
    const auto config =
        ReadConfig(absl::StrCat(*configs, "/", published.folder));
    ASSERT_THAT(config, IsOk());
    EXPECT_THAT(config->warnings, IsEmpty());
    ExpectSpec(config->spec, published);
  }
  for (const auto& entry : std::filesystem::directory_iterator(*configs)) {
    EXPECT_THAT(ReadConfig(entry.path().string()), IsOk()) << entry.path();
  }
}

// "lm_head.weight shape: [32064, 3072]" for every tensor, numbered.
std::set<std::string> ReadShapes(const std::string& path) {
  std::set<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) lines.insert(line.substr(colon + 2));
  }
  return lines;
}

TEST(RealCheckpoints, ExpectThePublishedTensorsAndShapes) {
  const auto configs = DataFolder("configs");
  const auto shapes = DataFolder("shapes");
  if (!configs || !shapes) return;
  const std::map<std::string, std::string> files = {
      {"phi-3-mini-4k-instruct", "Phi3Mini4KShapeTest.txt"},
      {"phi-3-mini-128k-instruct", "Phi3Mini128KShapeTest.txt"},
      {"phi-3-medium-4k-instruct", "Phi3Medium4KShapeTest.txt"},
      {"phi-3-medium-128k-instruct", "Phi3Medium128KShapeTest.txt"}};
  for (const auto& [folder, file] : files) {
    SCOPED_TRACE(folder);
    const auto config = ReadConfig(absl::StrCat(*configs, "/", folder));
    ASSERT_THAT(config, IsOk());
    std::set<std::string> expected;
    for (const ExpectedTensor& tensor : ExpectedTensors(config->spec)) {
      expected.insert(absl::StrCat(tensor.name, " shape: [",
                                   absl::StrJoin(tensor.shape, ", "), "]"));
    }
    EXPECT_EQ(ReadShapes(absl::StrCat(*shapes, "/", file)), expected);
  }
}

TEST(RealCheckpoints, ExpectThePublishedIndexesAndSizes) {
  const auto configs = DataFolder("configs");
  if (!configs) return;
  for (const std::string folder :
       {"phi-3.5-mini-instruct", "phi-4-mini-instruct", "phi-4"}) {
    SCOPED_TRACE(folder);
    const std::string path = absl::StrCat(*configs, "/", folder);
    const auto config = ReadConfig(path);
    ASSERT_THAT(config, IsOk());
    std::ifstream file(path + "/model.safetensors.index.json");
    const json index = json::parse(file);
    std::set<std::string> published;
    for (const auto& entry : index["weight_map"].items()) {
      published.insert(entry.key());
    }
    std::set<std::string> expected;
    int64_t bytes = 0;
    for (const ExpectedTensor& tensor : ExpectedTensors(config->spec)) {
      if (config->spec.tied_head && tensor.name == kHeadName) continue;
      expected.insert(tensor.name);
      bytes += ElementCount(tensor.shape) * SizeInBytes(config->spec.dtype);
    }
    EXPECT_EQ(published, expected);
    EXPECT_EQ(index["metadata"]["total_size"], bytes);
  }
}

// The published config with fewer, narrower layers; the rotary part keeps its
// size, since the factor lists have it.
TEST(RealCheckpoints, OpenSmallWeightsOfEveryPublishedConfig) {
  const auto configs = DataFolder("configs");
  if (!configs) return;
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.folder);
    std::ifstream file(
        absl::StrCat(*configs, "/", published.folder, "/config.json"));
    json config = json::parse(file);
    config["num_hidden_layers"] = 1;
    config["num_attention_heads"] = 4;
    config["num_key_value_heads"] = 2;
    config["hidden_size"] = 4 * published.head_dim;
    config["intermediate_size"] = 32;
    config["vocab_size"] = 64;
    TempFolder folder;
    SeededCheckpoint(config, {.dtype = DType::kBF16}).Write(folder);
    const auto checkpoint = Checkpoint::Open(folder.path());
    ASSERT_THAT(checkpoint, IsOk());
    EXPECT_EQ((*checkpoint)->spec().rotary_dims, published.rotary_dims);
    EXPECT_EQ((*checkpoint)->spec().tied_head, published.tied);
  }
}

}  // namespace
}  // namespace phitap
