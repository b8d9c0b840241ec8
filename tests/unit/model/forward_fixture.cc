#include "tests/unit/model/forward_fixture.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/spec/hook_point.h"

namespace phitap {
namespace {

std::vector<int64_t> FirstIntegers(int64_t count) {
  std::vector<int64_t> integers(count);
  std::iota(integers.begin(), integers.end(), 0);
  return integers;
}

at::Tensor BitsOf(const at::Tensor& x) {
  const at::Tensor contiguous = x.contiguous();
  if (!x.is_floating_point()) return contiguous;
  const at::Tensor one_nan = contiguous.masked_fill(contiguous.isnan(), 0.0);
  return one_nan.view(x.element_size() == 2 ? at::kShort : at::kInt);
}

}  // namespace

std::unique_ptr<Phi3> TinyModel(TinyKind kind, DType dtype) {
  const TempFolder folder;
  TinyCheckpoint(kind, {.dtype = dtype}).Write(folder);
  return Phi3::Load(Checkpoint::Open(folder.path()).value(), dtype).value();
}

std::unique_ptr<Phi3> ModelWithWindow(int64_t window, DType dtype) {
  const TempFolder folder;
  nlohmann::json config = TinyConfig(TinyKind::kWindow);
  config["sliding_window"] = window;
  SeededCheckpoint(config, {.dtype = dtype}).Write(folder);
  return Phi3::Load(Checkpoint::Open(folder.path()).value(), dtype).value();
}

ForwardRow Prompt::Row() const {
  return {.ids = ids,
          .position_ids = position_ids,
          .has_position_ids = has_position_ids,
          .hidden_positions = hidden,
          .layer_count = layer_count,
          .tail_positions = tail,
          .norm_positions = norm,
          .head_positions = head};
}

Prompt WholePrompt(const Phi3& model, std::vector<int32_t> ids) {
  Prompt prompt{.ids = std::move(ids),
                .layer_count = static_cast<int>(model.spec().num_layers)};
  prompt.position_ids = FirstIntegers(prompt.token_count());
  prompt.tail = prompt.norm = prompt.head = prompt.position_ids;
  return prompt;
}

Prompt PrefixOf(const Phi3& model, const Prompt& prompt, int64_t token_count) {
  Prompt prefix = WholePrompt(
      model, {prompt.ids.begin(), prompt.ids.begin() + token_count});
  prefix.position_ids = {prompt.position_ids.begin(),
                         prompt.position_ids.begin() + token_count};
  prefix.has_position_ids = prompt.has_position_ids;
  for (const int64_t position : prompt.hidden) {
    if (position < token_count) prefix.hidden.push_back(position);
  }
  prefix.layer_count = prompt.layer_count;
  return prefix;
}

Prompt RandomPrompt(const Phi3& model, int64_t token_count,
                    std::mt19937& random) {
  const auto draw = [&](int64_t count) {
    return static_cast<int64_t>(random() % count);
  };
  std::vector<int32_t> ids(token_count);
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(draw(model.spec().vocab_size));
  }
  Prompt prompt = WholePrompt(model, std::move(ids));
  if (draw(3) == 0) {
    for (int64_t i = 0; i < token_count; ++i) {
      if (draw(8) == 0) prompt.hidden.push_back(i);
    }
  }
  if (draw(3) == 0) {
    prompt.has_position_ids = true;
    int64_t position = draw(4);
    for (int64_t& id : prompt.position_ids) {
      id = position;
      position += draw(3);
    }
  }
  return prompt;
}

Records ForwardAll(const Phi3& model, const std::vector<Prompt>& prompts,
                   const ForwardOptions& options) {
  std::vector<ForwardRow> rows;
  std::vector<int64_t> token_counts;
  for (const Prompt& prompt : prompts) {
    rows.push_back(prompt.Row());
    token_counts.push_back(prompt.token_count());
  }
  RecordingHooks hooks(token_counts, [](Hook) { return true; });
  model.Forward(rows, options, hooks);
  return hooks.records();
}

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
    return false;
  }
  if (a.is_floating_point() && !at::equal(a.isnan(), b.isnan())) return false;
  return at::equal(BitsOf(a), BitsOf(b));
}

std::string NameOf(const RecordingHooks::Key& key) {
  return absl::StrCat(EntryOf(key.hook).name, " of layer ", key.layer, ", row ",
                      key.row);
}

bool IsPattern(Hook hook) {
  return hook == Hook::kAttentionScores ||
         hook == Hook::kAttentionProbabilities;
}

}  // namespace phitap
