#include "tests/support/checkpoint_files.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

using nlohmann::json;

absl::string_view StoredName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    default:
      throw std::invalid_argument("not an element type of weights");
  }
}

// Appends a number of at most 8 significant bits and an exponent that float16
// has.
void Append(float value, DType dtype, std::string& bytes) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (dtype == DType::kF32) {
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
    return;
  }
  uint16_t half = bits >> 16;  // bfloat16 is float32's upper half
  if (dtype == DType::kF16) {
    const uint32_t exponent = (bits >> 23 & 0xFF) - (127 - 15);
    half = bits >> 16 & 0x8000;
    if (value != 0.0f) half |= exponent << 10 | (bits >> 13 & 0x3FF);
  }
  bytes.append(reinterpret_cast<const char*>(&half), sizeof(half));
}

// Draws the weights of a checkpoint one after the other.
class SeededTensors {
 public:
  explicit SeededTensors(TinyWeights weights)
      : dtype_(weights.dtype), random_(weights.seed) {}

  // centre + k · scale, |k| <= span. A power of two for a scale keeps it exact.
  struct Values {
    float centre;
    float scale;
    int span;
  };

  void Add(const std::string& name, std::vector<int64_t> shape, Values values) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    RawTensor tensor{.name = name,
                     .dtype = std::string(StoredName(dtype_)),
                     .shape = std::move(shape)};
    for (int64_t i = 0; i < count; ++i) {
      const int k =
          static_cast<int>(random_() % (2 * values.span + 1)) - values.span;
      Append(values.centre + k * values.scale, dtype_, tensor.bytes);
    }
    tensors_.push_back(std::move(tensor));
  }

  std::vector<RawTensor> Take() { return std::move(tensors_); }

 private:
  DType dtype_;
  std::mt19937_64 random_;
  std::vector<RawTensor> tensors_;
};

}  // namespace

TempFolder::TempFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "phitap-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error(absl::StrCat("mkdtemp: ", std::strerror(errno)));
  }
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::File(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

void TempFolder::Write(absl::string_view name, absl::string_view bytes) const {
  std::ofstream file(File(name), std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error(absl::StrCat("cannot write ", name));
}

std::string SafetensorsBytes(const std::vector<RawTensor>& tensors) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const RawTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype},
        {"shape", tensor.shape},
        {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return SafetensorsBytes(text, data);
}

std::string SafetensorsBytes(absl::string_view header, absl::string_view data) {
  const uint64_t length = header.size();
  return absl::StrCat(
      absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length)),
      header, data);
}

RawTensor& CheckpointFiles::Tensor(absl::string_view name) {
  for (RawTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::out_of_range(std::string(name));
}

void CheckpointFiles::Remove(absl::string_view name) {
  const std::string& present = Tensor(name).name;
  tensors.erase(std::find_if(
      tensors.begin(), tensors.end(),
      [&](const RawTensor& tensor) { return &tensor.name == &present; }));
}

void CheckpointFiles::Write(const TempFolder& folder) const {
  folder.Write("config.json", config.dump(2));
  if (generation_config) {
    folder.Write("generation_config.json", generation_config->dump(2));
  }
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
}

void CheckpointFiles::WriteSharded(const TempFolder& folder,
                                   size_t count) const {
  Write(folder);
  std::filesystem::remove(folder.File("model.safetensors"));
  json weight_map = json::object();
  for (size_t shard = 0; shard < count; ++shard) {
    const std::string name = absl::StrCat("model-0000", shard + 1, "-of-0000",
                                          count, ".safetensors");
    std::vector<RawTensor> part(
        tensors.begin() + tensors.size() * shard / count,
        tensors.begin() + tensors.size() * (shard + 1) / count);
    for (const RawTensor& tensor : part) weight_map[tensor.name] = name;
    folder.Write(name, SafetensorsBytes(part));
  }
  folder.Write(
      "model.safetensors.index.json",
      json({{"metadata", json::object()}, {"weight_map", weight_map}}).dump(2));
}

CheckpointFiles TinyCheckpoint(TinyKind kind, TinyWeights weights) {
  return SeededCheckpoint(TinyConfig(kind), weights);
}

CheckpointFiles SeededCheckpoint(json config, TinyWeights weights) {
  config["torch_dtype"] = std::string(Name(weights.dtype));
  const int64_t hidden = config["hidden_size"];
  const int64_t inner = config["intermediate_size"];
  const int64_t vocabulary = config["vocab_size"];
  const int64_t heads = config["num_attention_heads"];
  const int64_t kv_heads = config["num_key_value_heads"];
  const int64_t head_dim = config.value("head_dim", hidden / heads);
  constexpr SeededTensors::Values kNorm = {1.0f, 1.0f / 128, 16};
  constexpr SeededTensors::Values kLinear = {0.0f, 1.0f / 512, 127};
  constexpr SeededTensors::Values kEmbedding = {0.0f, 1.0f / 128, 127};

  SeededTensors tensors(weights);
  tensors.Add("model.embed_tokens.weight", {vocabulary, hidden}, kEmbedding);
  const int64_t layers = config["num_hidden_layers"];
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    tensors.Add(prefix + "input_layernorm.weight", {hidden}, kNorm);
    tensors.Add(prefix + "self_attn.qkv_proj.weight",
                {(heads + 2 * kv_heads) * head_dim, hidden}, kLinear);
    tensors.Add(prefix + "self_attn.o_proj.weight", {hidden, heads * head_dim},
                kLinear);
    tensors.Add(prefix + "post_attention_layernorm.weight", {hidden}, kNorm);
    tensors.Add(prefix + "mlp.gate_up_proj.weight", {2 * inner, hidden},
                kLinear);
    tensors.Add(prefix + "mlp.down_proj.weight", {hidden, inner}, kLinear);
  }
  tensors.Add("model.norm.weight", {hidden}, kNorm);
  if (!config.value("tie_word_embeddings", false)) {
    tensors.Add("lm_head.weight", {vocabulary, hidden}, kLinear);
  }
  return {.config = std::move(config), .tensors = tensors.Take()};
}

std::optional<std::string> TestDataFolder() {
  const char* stated = std::getenv("PHITAP_TEST_DATA");
  const std::string folder =
      stated != nullptr ? stated : PHITAP_SOURCE_DIR "/../shared/data";
  if (!std::filesystem::is_directory(folder)) return std::nullopt;
  return folder;
}

}  // namespace phitap
