// The configs of the small checkpoints in checkpoint_files.h.
#include <string>

#include "absl/strings/string_view.h"
#include "tests/support/checkpoint_files.h"

namespace phitap {
namespace {

using nlohmann::json;

constexpr int kVocabulary = 96;

json LongRopeParameters(absl::string_view type, int count) {
  json short_factor = json::array();
  json long_factor = json::array();
  for (int i = 0; i < count; ++i) {
    short_factor.push_back(1.0 + 0.05 * i);
    long_factor.push_back(1.0 + 1.5 * i);
  }
  return {{"type", std::string(type)},
          {"short_factor", short_factor},
          {"long_factor", long_factor}};
}

json WithLongRope(json config, absl::string_view type, int count) {
  config["rope_scaling"] = LongRopeParameters(type, count);
  config["max_position_embeddings"] = 512;
  config["original_max_position_embeddings"] = 16;
  config["sliding_window"] = 1024;
  return config;
}

}  // namespace

std::string Name(TinyKind kind) {
  switch (kind) {
    case TinyKind::kWindow:
      return "window";
    case TinyKind::kLongRope:
      return "longrope";
    case TinyKind::kSu:
      return "su";
    case TinyKind::kGroupedQueries:
      return "grouped_queries";
    case TinyKind::kPartialTied:
      return "partial_tied";
    case TinyKind::kPhi4:
      return "phi4";
    case TinyKind::kHeadDim:
      return "head_dim";
  }
  return "unknown";
}

json TinyConfig(TinyKind kind) {
  json config = {{"architectures", {"Phi3ForCausalLM"}},
                 {"model_type", "phi3"},
                 {"hidden_act", "silu"},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 4},
                 {"vocab_size", kVocabulary},
                 {"max_position_embeddings", 512},
                 {"original_max_position_embeddings", 512},
                 {"rms_norm_eps", 1e-5},
                 {"rope_scaling", nullptr},
                 {"rope_theta", 10000.0},
                 {"sliding_window", nullptr},
                 {"tie_word_embeddings", false},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2},
                 {"pad_token_id", 0}};
  switch (kind) {
    case TinyKind::kWindow:
      config["sliding_window"] = 8;
      return config;
    case TinyKind::kLongRope:
      return WithLongRope(config, "longrope", 8);
    case TinyKind::kSu:
      config["num_key_value_heads"] = 1;
      return WithLongRope(config, "su", 8);
    case TinyKind::kGroupedQueries:
      config["num_attention_heads"] = 8;
      config["num_key_value_heads"] = 2;
      return config;
    case TinyKind::kPartialTied:
      config["partial_rotary_factor"] = 0.75;
      config["num_key_value_heads"] = 2;
      config["tie_word_embeddings"] = true;
      return WithLongRope(config, "longrope", 6);
    case TinyKind::kPhi4:
      config["num_key_value_heads"] = 2;
      config["rope_theta"] = 250000;
      return config;
    case TinyKind::kHeadDim:
      config["head_dim"] = 24;
      return config;
  }
  return config;
}

}  // namespace phitap
