#include "client/cli/lens_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/table.h"
#include "client/cpp/float_values.h"

namespace phitap::cli {
namespace {

using client::ElementAt;
using client::TracedTensor;

constexpr double kPercent = 100;
// Side by side in a terminal.
constexpr int64_t kMostRanks = 8;

// Best tokens of one row, or of every row, of one hook point's lens.
class LensValues {
 public:
  LensValues(const TracedTensor& probabilities, const TracedTensor& indices)
      : probabilities_(probabilities.value),
        indices_(indices.value),
        count_(indices.value.shape.back()) {}

  int64_t rank_count() const { return count_; }
  int64_t row_count() const { return indices_.shape.front(); }

  int32_t Id(int64_t row, int64_t rank) const {
    return static_cast<int32_t>(ElementAt(indices_, row * count_ + rank));
  }

  Guess At(int64_t row, int64_t rank, const TokenNames& names) const {
    return {.token = names.Of(Id(row, rank)),
            .probability = ElementAt(probabilities_, row * count_ + rank)};
  }

 private:
  const HostTensor& probabilities_;
  const HostTensor& indices_;
  int64_t count_;
};

std::vector<LensValues> ValuesOf(const TracedGroup& group) {
  const std::vector<const TracedTensor*> probabilities =
      group.Part("probabilities");
  const std::vector<const TracedTensor*> indices = group.Part("indices");
  std::vector<LensValues> values;
  for (size_t i = 0; i < std::min(probabilities.size(), indices.size()); ++i) {
    values.emplace_back(*probabilities[i], *indices[i]);
  }
  return values;
}

std::vector<Guess> RanksOf(const LensValues& values, int64_t row,
                           const TokenNames& names) {
  std::vector<Guess> guesses;
  const int64_t count = std::min(values.rank_count(), kMostRanks);
  for (int64_t rank = 0; rank < count; ++rank) {
    guesses.push_back(values.At(row, rank, names));
  }
  return guesses;
}

LensTable OverPositions(const TracedGroup& group,
                        const std::vector<LensValues>& values,
                        const TokenNames& names) {
  LensTable table;
  for (const int64_t position : group.Positions()) {
    table.numbers.push_back(absl::StrCat(position));
    table.tokens.push_back(group.TokenAt(position));
  }
  const std::vector<const TracedTensor*> tensors = group.Part("indices");
  for (size_t i = 0; i < values.size(); ++i) {
    LensRow row = {.hook_point = tensors[i]->descriptor.hook_point()};
    for (int64_t column = 0; column < values[i].row_count(); ++column) {
      row.guesses.push_back(values[i].At(column, 0, names));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

LensTable OverRanks(const TracedGroup& group,
                    const std::vector<LensValues>& values,
                    const TokenNames& names) {
  LensTable table;
  const int64_t count = std::min(values.front().rank_count(), kMostRanks);
  for (int64_t rank = 1; rank <= count; ++rank) {
    table.tokens.push_back(absl::StrCat("#", rank));
  }
  const std::vector<const TracedTensor*> tensors = group.Part("indices");
  for (size_t i = 0; i < values.size(); ++i) {
    table.rows.push_back({.hook_point = tensors[i]->descriptor.hook_point(),
                          .guesses = RanksOf(values[i], 0, names)});
  }
  return table;
}

// The tokens asked about, at the last position of the capture.
Table TokensAskedAbout(const TracedGroup& group, const TokenNames& names) {
  Table table;
  table.columns.push_back({.title = "hook point"});
  const auto& ids = group.capture->reduction().logit_lens().token_ids();
  for (const int32_t id : ids) {
    table.columns.push_back({.title = names.Of(id), .align = Align::kRight});
  }
  const std::vector<const TracedTensor*> probabilities =
      group.Part("token_probabilities");
  const std::vector<const TracedTensor*> ranks = group.Part("token_ranks");
  for (size_t i = probabilities.size(); i-- > 0;) {
    const HostTensor& value = probabilities[i]->value;
    const int64_t start = ElementCount(value.shape) - ids.size();
    std::vector<Cell> row = {
        {.text = probabilities[i]->descriptor.hook_point()}};
    for (int64_t column = 0; column < ids.size(); ++column) {
      const double probability = ElementAt(value, start + column);
      const double rank = ElementAt(ranks[i]->value, start + column);
      row.push_back(
          {.text = absl::StrFormat("%.1f%% (#%d)", probability * kPercent,
                                   static_cast<int64_t>(rank) + 1),
           .style = RampStyle(probability)});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<int32_t> IdsOfLens(const TracedGroup& group) {
  std::vector<int32_t> ids;
  const auto& asked = group.capture->reduction().logit_lens().token_ids();
  ids.insert(ids.end(), asked.begin(), asked.end());
  const std::vector<LensValues> values = ValuesOf(group);
  for (const LensValues& lens : values) {
    for (int64_t row = 0; row < lens.row_count(); ++row) {
      // The whole ranking is shown in one column only.
      const bool all = row + 1 == lens.row_count();
      for (int64_t rank = 0; rank < (all ? lens.rank_count() : 1); ++rank) {
        ids.push_back(lens.Id(row, rank));
      }
    }
  }
  return ids;
}

std::string RenderLens(const TracedGroup& group, const TokenNames& names,
                       const Terminal& terminal) {
  const std::vector<LensValues> values = ValuesOf(group);
  const std::vector<int64_t> positions = group.Positions();
  if (values.empty() || positions.empty()) return "";
  LensTable table = values.front().row_count() == 1
                        ? OverRanks(group, values, names)
                        : OverPositions(group, values, names);
  const LensValues& last = values.back();
  table.answer = RanksOf(last, last.row_count() - 1, names);
  table.answer_after = group.TokenAt(positions.back());
  std::string text = Render(table, terminal);
  if (!group.Part("token_ranks").empty()) {
    absl::StrAppend(&text, "\n",
                    Render(TokensAskedAbout(group, names), terminal));
  }
  return text;
}

}  // namespace phitap::cli
