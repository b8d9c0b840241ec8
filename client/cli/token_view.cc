#include "client/cli/token_view.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/table.h"
#include "client/cpp/float_values.h"

namespace phitap::cli {
namespace {

using client::ElementAt;
using client::TracedTensor;

constexpr double kPercent = 100;
constexpr int64_t kMostRows = 16;
constexpr int64_t kMostColumns = 8;
// Likeliest tokens of a whole row of logits.
constexpr int64_t kLikeliest = 5;

// Rows of the last dimension, e.g. one for each position and head.
int64_t RowCount(const HostTensor& tensor) {
  const int64_t width = tensor.shape.empty() ? 1 : tensor.shape.back();
  return width == 0 ? 0 : ElementCount(tensor.shape) / width;
}

int64_t FirstRowShown(const HostTensor& tensor) {
  return std::max<int64_t>(0, RowCount(tensor) - kMostRows);
}

// `13 ·to`, with other leading indices before it, e.g. `head 2`.
std::string RowName(const TracedGroup& group, const TracedTensor& tensor,
                    int64_t row) {
  const v1::TensorDescriptor& descriptor = tensor.descriptor;
  const std::vector<int64_t> positions = group.Positions();
  std::string name;
  int64_t rest = row;
  for (int i = descriptor.shape_size() - 2; i >= 0; --i) {
    const int64_t index = rest % descriptor.shape(i);
    rest /= descriptor.shape(i);
    const bool is_position = descriptor.dimension_names(i) == "seq" &&
                             index < static_cast<int64_t>(positions.size());
    const std::string part =
        is_position ? absl::StrCat(positions[index], " ",
                                   group.TokenAt(positions[index]))
                    : absl::StrCat(descriptor.dimension_names(i), " ", index);
    name = name.empty() ? part : absl::StrCat(part, ", ", name);
  }
  return name;
}

std::string LeftOut(const HostTensor& tensor) {
  const int64_t first = FirstRowShown(tensor);
  return first == 0
             ? ""
             : absl::StrCat("(the first ", first, " rows are not shown)\n");
}

// The largest entries of one row, best first, as softmax probabilities or, for
// values that are probabilities already, as they are.
std::vector<std::pair<int32_t, double>> Likeliest(const TracedTensor& tensor,
                                                  int64_t row) {
  const int64_t width = tensor.value.shape.back();
  std::vector<double> values =
      client::ElementsAt(tensor.value, row * width, width);
  if (!absl::EndsWith(tensor.descriptor.hook_point(), "next_token_probs")) {
    const double largest = *std::max_element(values.begin(), values.end());
    double sum = 0;
    for (double& value : values) sum += value = std::exp(value - largest);
    for (double& value : values) value /= sum;
  }
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min<int64_t>(kLikeliest, width);
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&values](int32_t a, int32_t b) {
                      return values[a] != values[b] ? values[a] > values[b]
                                                    : a < b;
                    });
  std::vector<std::pair<int32_t, double>> likeliest;
  for (int64_t i = 0; i < count; ++i) {
    likeliest.emplace_back(order[i], values[order[i]]);
  }
  return likeliest;
}

Table TableOfRanks(absl::string_view title, int64_t count) {
  Table table;
  table.columns.push_back({.title = std::string(title), .may_shrink = true});
  for (int64_t rank = 1; rank <= count; ++rank) {
    table.columns.push_back({.title = absl::StrCat("#", rank)});
  }
  return table;
}

}  // namespace

bool HasTokenColumns(const v1::TensorDescriptor& tensor,
                     const v1::Capture& capture) {
  const std::string& name = tensor.hook_point();
  return (name == "logits" || name == "lm_head_output" ||
          name == "next_token_probs") &&
         !capture.selection().has_features();
}

std::vector<int32_t> IdsOfTopK(const TracedGroup& group) {
  std::vector<int32_t> ids;
  for (const TracedTensor* tensor : group.Part("indices")) {
    if (!HasTokenColumns(tensor->descriptor, *group.capture)) continue;
    const int64_t width = tensor->value.shape.back();
    const int64_t start = FirstRowShown(tensor->value) * width;
    for (const double id : client::ElementsAt(
             tensor->value, start, ElementCount(tensor->value.shape) - start)) {
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  return ids;
}

std::vector<int32_t> IdsOfVocabulary(const TracedGroup& group) {
  std::vector<int32_t> ids;
  for (const TracedTensor* tensor : group.tensors) {
    for (int64_t row = FirstRowShown(tensor->value);
         row < RowCount(tensor->value); ++row) {
      for (const auto& [id, probability] : Likeliest(*tensor, row)) {
        ids.push_back(id);
      }
    }
  }
  return ids;
}

std::string RenderTopK(const TracedGroup& group, const TokenNames& names,
                       const Terminal& terminal) {
  const std::vector<const TracedTensor*> values = group.Part("values");
  const std::vector<const TracedTensor*> indices = group.Part("indices");
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), indices.size()); ++i) {
    const TracedTensor& index = *indices[i];
    const bool tokens = HasTokenColumns(index.descriptor, *group.capture);
    const int64_t width = index.value.shape.back();
    const int64_t shown = std::min(width, kMostColumns);
    Table table = TableOfRanks(index.descriptor.hook_point(), shown);
    for (int64_t row = FirstRowShown(index.value); row < RowCount(index.value);
         ++row) {
      std::vector<std::string> cells = {RowName(group, index, row)};
      for (int64_t rank = 0; rank < shown; ++rank) {
        const int64_t at = row * width + rank;
        const auto id = static_cast<int32_t>(ElementAt(index.value, at));
        cells.push_back(absl::StrCat(
            tokens ? names.Of(id) : absl::StrCat(id), " ",
            absl::StrFormat("%.3g", ElementAt(values[i]->value, at))));
      }
      table.AddRow(std::move(cells));
    }
    absl::StrAppend(&text, Render(table, terminal), LeftOut(index.value));
  }
  return text;
}

std::string RenderVocabulary(const TracedGroup& group, const TokenNames& names,
                             const Terminal& terminal) {
  std::string text;
  for (const TracedTensor* tensor : group.tensors) {
    const int64_t count =
        std::min<int64_t>(kLikeliest, tensor->value.shape.back());
    Table table = TableOfRanks(tensor->descriptor.hook_point(), count);
    for (int64_t row = FirstRowShown(tensor->value);
         row < RowCount(tensor->value); ++row) {
      std::vector<Cell> cells = {{.text = RowName(group, *tensor, row)}};
      for (const auto& [id, probability] : Likeliest(*tensor, row)) {
        cells.push_back(
            {.text = absl::StrFormat("%s %.1f%%", names.Of(id),
                                     probability * kPercent),
             .style = {.foreground = RampColor(0.3 + 0.7 * probability)}});
      }
      table.rows.push_back(std::move(cells));
    }
    absl::StrAppend(&text, Render(table, terminal), LeftOut(tensor->value));
  }
  return text;
}

}  // namespace phitap::cli
