// One clear sentence for every config that cannot be served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/base/field_error.h"
#include "server/checkpoint/config.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using absl::StatusCode;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

struct BadField {
  // Key of the config, and the value that is wrong.
  std::string key;
  json value;
  std::string problem;
  StatusCode code = StatusCode::kInvalidArgument;
};

void PrintTo(const BadField& field, std::ostream* out) {
  *out << field.key << "=" << field.value.dump().substr(0, 60);
}

class ReadConfigRefuses : public testing::TestWithParam<BadField> {};

TEST_P(ReadConfigRefuses, NamesTheFieldAndTheValue) {
  TempFolder folder;
  json config = TinyConfig(TinyKind::kWindow);
  config[GetParam().key] = GetParam().value;
  folder.Write("config.json", config.dump());
  const absl::Status status = ReadConfig(folder.path()).status();
  EXPECT_THAT(
      status,
      StatusIs(GetParam().code,
               AllOf(StartsWith("config.json: " + GetParam().key),
                     HasSubstr(GetParam().problem), HasSubstr("; valid: "))));
  EXPECT_THAT(FieldOf(status), StartsWith("config.json: " + GetParam().key));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ReadConfigRefuses,
    testing::Values(
        BadField{"model_type", "phi3small", "Phi-3-small",
                 StatusCode::kFailedPrecondition},
        BadField{"model_type", "phi4flash", "Phi-4-mini-flash",
                 StatusCode::kFailedPrecondition},
        BadField{"model_type", "phimoe", "a mixture of experts",
                 StatusCode::kFailedPrecondition},
        BadField{"model_type", "llama", "\"llama\"",
                 StatusCode::kFailedPrecondition},
        BadField{"model_type", nullptr, "is missing"},
        BadField{"model_type", 3, "3"},
        BadField{"architectures", json{"Phi3ForSequenceClassification"},
                 "\"Phi3ForSequenceClassification\"",
                 StatusCode::kFailedPrecondition},
        BadField{"architectures", json::array(), "is empty",
                 StatusCode::kFailedPrecondition},
        BadField{"architectures", "Phi3ForCausalLM", "Phi3ForCausalLM"},
        BadField{"architectures", json{7}, "7"},
        BadField{"quantization_config", json{{"quant_method", "awq"}},
                 "quantised by \"awq\"", StatusCode::kFailedPrecondition},
        BadField{"quantization_config", json{{"bits", 4}}, "is quantised",
                 StatusCode::kFailedPrecondition},
        BadField{"compression_config",
                 json{{"quant_method", "compressed-tensors"}},
                 "compressed-tensors", StatusCode::kFailedPrecondition},
        BadField{"hidden_act", "gelu", "\"gelu\""},
        BadField{"torch_dtype", "float64", "\"float64\""},
        BadField{"dtype", "int8", "\"int8\""}, BadField{"dtype", 16, "16"}));

INSTANTIATE_TEST_SUITE_P(
    Sizes, ReadConfigRefuses,
    testing::Values(
        BadField{"num_hidden_layers", 0, "0"},
        BadField{"num_hidden_layers", -1, "-1"},
        BadField{"num_hidden_layers", 1025, "1025"},
        BadField{"num_hidden_layers", nullptr, "null"},
        BadField{"num_hidden_layers", "32", "\"32\""},
        BadField{"num_hidden_layers", 32.0, "32.0"},
        BadField{"num_hidden_layers", true, "true"},
        BadField{"hidden_size", 0, "0"},
        BadField{"hidden_size", 18446744073709551615u, "18446744073709551615"},
        BadField{"hidden_size", 9223372036854775807, "9223372036854775807"},
        BadField{"hidden_size", json::array({64}), "[64]"},
        BadField{"intermediate_size", -96, "-96"},
        BadField{"intermediate_size", 1 << 21, "2097152"},
        BadField{"vocab_size", 0, "0"},
        BadField{"vocab_size", 1 << 25, "33554432"},
        BadField{"num_attention_heads", 0, "0"},
        BadField{"num_attention_heads", 5, "5 does not divide hidden_size 64"},
        BadField{"num_key_value_heads", 3,
                 "3 does not divide 4 attention heads"},
        BadField{"num_key_value_heads", 0, "0"},
        BadField{"num_key_value_heads", 8, "8 does not divide"},
        BadField{"head_dim", 0, "0"}, BadField{"head_dim", 15, "15 of 15"},
        BadField{"head_dim", 1 << 20, "1048576"},
        BadField{"max_position_embeddings", 0, "0"},
        BadField{"max_position_embeddings", 1 << 25, "33554432"},
        BadField{"sliding_window", 0, "0"},
        BadField{"sliding_window", -1, "-1"}, BadField{"rms_norm_eps", 0, "0"},
        BadField{"rms_norm_eps", -1e-5, "-1"}, BadField{"rms_norm_eps", 2, "2"},
        BadField{"rms_norm_eps", "1e-5", "\"1e-5\""},
        BadField{"tie_word_embeddings", 1, "1"},
        BadField{"tie_word_embeddings", nullptr, "null"},
        BadField{"bos_token_id", -1, "-1"},
        BadField{"pad_token_id", 0.5, "0.5"},
        BadField{"eos_token_id", json{1, "x"}, "[1,\"x\"]"},
        BadField{"eos_token_id", 1e300, "1e+300"}));

TEST(ReadConfig, NamesTheGenerationConfigWhereThatIsWrong) {
  TempFolder folder;
  folder.Write("config.json", TinyConfig(TinyKind::kWindow).dump());
  folder.Write("generation_config.json", R"({"eos_token_id": [1, -7]})");
  EXPECT_THAT(
      ReadConfig(folder.path()),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("generation_config.json: eos_token_id: [1,-7]")));
  folder.Write("generation_config.json", R"({"eos_token_id": )");
  EXPECT_THAT(ReadConfig(folder.path()),
              StatusIs(StatusCode::kDataLoss,
                       HasSubstr("generation_config.json: is not JSON")));
}

TEST(ReadConfig, RefusesATruncatedConfig) {
  TempFolder folder;
  const std::string text = TinyConfig(TinyKind::kLongRope).dump();
  for (size_t length = 0; length < text.size(); length += 7) {
    folder.Write("config.json", text.substr(0, length));
    EXPECT_THAT(ReadConfig(folder.path()),
                StatusIs(StatusCode::kDataLoss,
                         HasSubstr("config.json: is not JSON from byte")));
  }
}

TEST(ReadConfig, RefusesAKeyGivenTwice) {
  TempFolder folder;
  folder.Write(
      "config.json",
      R"({"model_type": "phi3", "hidden_size": 64, "hidden_size": 32})");
  EXPECT_THAT(ReadConfig(folder.path()),
              StatusIs(StatusCode::kDataLoss,
                       HasSubstr("key \"hidden_size\" appears twice")));
}

TEST(ReadConfig, RefusesAFolderThatIsNotThere) {
  EXPECT_THAT(ReadConfig("/nonexistent/phi"),
              StatusIs(StatusCode::kNotFound,
                       HasSubstr("/nonexistent/phi: does not exist")));
}

TEST(ReadConfig, RefusesAFileInTheFoldersPlace) {
  TempFolder folder;
  folder.Write("model.gguf", "GGUF");
  EXPECT_THAT(
      ReadConfig(folder.File("model.gguf")),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("is not a folder")));
}

TEST(ReadConfig, RefusesAnEmptyFolder) {
  TempFolder folder;
  EXPECT_THAT(
      ReadConfig(folder.path()),
      StatusIs(StatusCode::kNotFound, HasSubstr("config.json: is not in ")));
}

TEST(ReadConfig, RefusesAnAdapterEvenBesideAConfig) {
  TempFolder folder;
  folder.Write("config.json", TinyConfig(TinyKind::kWindow).dump());
  folder.Write("adapter_config.json", "{}");
  EXPECT_THAT(ReadConfig(folder.path()),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("adapter_config.json: "),
                             HasSubstr("holds an adapter"))));
}

TEST(ReadConfig, SaysWhatAFolderOfAnotherFormatHolds) {
  struct Format {
    std::string file;
    std::string description;
  };
  for (const Format& format : std::vector<Format>{
           {"phi3-mini.onnx", "an ONNX export (phi3-mini.onnx)"},
           {"phi3.q4.gguf", "a GGUF export (phi3.q4.gguf)"},
           {"pytorch_model.bin", "pickled PyTorch weights"}}) {
    TempFolder folder;
    folder.Write(format.file, "x");
    EXPECT_THAT(ReadConfig(folder.path()),
                StatusIs(StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("config.json: "),
                               HasSubstr(format.description))));
  }
}

}  // namespace
}  // namespace phitap
