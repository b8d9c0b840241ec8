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
constexpr size_t kMostRows = 24;
constexpr int64_t kMostColumns = 8;
// Likeliest tokens of a whole row of logits.
constexpr int64_t kLikeliest = 5;

// Rows of the last dimension, e.g. one for each position and head.
int64_t RowCount(const HostTensor& tensor) {
  const int64_t width = tensor.shape.empty() ? 1 : tensor.shape.back();
  return width == 0 ? 0 : ElementCount(tensor.shape) / width;
}

// A row of one of the group's tensors.
struct RowOf {
  const TracedTensor* tensor;
  int64_t row;
};

// The rows of all these tensors that are shown: the last ones.
std::vector<RowOf> ShownRows(const std::vector<const TracedTensor*>& tensors) {
  std::vector<RowOf> rows;
  for (const TracedTensor* tensor : tensors) {
    for (int64_t row = 0; row < RowCount(tensor->value); ++row) {
      rows.push_back({tensor, row});
    }
  }
  if (rows.size() > kMostRows) {
    rows.erase(rows.begin(), rows.end() - kMostRows);
  }
  return rows;
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

// One line for each row: where it was read, then what is best there.
Table TableOfRanks(int64_t count) {
  Table table = {.columns = {{.title = "hook point", .may_shrink = true},
                             {.title = "at"}}};
  for (int64_t rank = 1; rank <= count; ++rank) {
    table.columns.push_back({.title = absl::StrCat("#", rank)});
  }
  return table;
}

std::string RenderWithNote(const Table& table,
                           const std::vector<const TracedTensor*>& tensors,
                           const Terminal& terminal) {
  int64_t count = 0;
  for (const TracedTensor* tensor : tensors) count += RowCount(tensor->value);
  const int64_t hidden = count - static_cast<int64_t>(table.rows.size());
  return absl::StrCat(Render(table, terminal),
                      hidden == 0 ? ""
                                  : absl::StrCat("(", hidden,
                                                 " earlier rows are not "
                                                 "shown)\n"));
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
  for (const RowOf& shown : ShownRows(group.Part("indices"))) {
    const v1::TensorDescriptor& descriptor = shown.tensor->descriptor;
    if (!HasTokenColumns(descriptor, *group.capture)) continue;
    const int64_t width = shown.tensor->value.shape.back();
    for (const double id :
         client::ElementsAt(shown.tensor->value, shown.row * width, width)) {
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  return ids;
}

std::vector<int32_t> IdsOfVocabulary(const TracedGroup& group) {
  std::vector<int32_t> ids;
  for (const RowOf& shown : ShownRows(group.tensors)) {
    for (const auto& [id, probability] : Likeliest(*shown.tensor, shown.row)) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::string RenderTopK(const TracedGroup& group, const TokenNames& names,
                       const Terminal& terminal) {
  const std::vector<const TracedTensor*> indices = group.Part("indices");
  const int64_t width = indices.front()->value.shape.back();
  const int64_t count = std::min(width, kMostColumns);
  Table table = TableOfRanks(count);
  for (const auto& [index, row] : ShownRows(indices)) {
    const std::vector<const TracedTensor*> values = group.Part("values");
    const auto tensor = std::find(indices.begin(), indices.end(), index);
    const HostTensor& value = values[tensor - indices.begin()]->value;
    std::vector<std::string> cells = {index->descriptor.hook_point(),
                                      RowName(group, *index, row)};
    for (int64_t at = row * width; at < row * width + count; ++at) {
      const auto id = static_cast<int32_t>(ElementAt(index->value, at));
      const bool is_token = HasTokenColumns(index->descriptor, *group.capture);
      cells.push_back(
          absl::StrFormat("%s %.3g", is_token ? names.Of(id) : absl::StrCat(id),
                          ElementAt(value, at)));
    }
    table.AddRow(std::move(cells));
  }
  return RenderWithNote(table, indices, terminal);
}

std::string RenderVocabulary(const TracedGroup& group, const TokenNames& names,
                             const Terminal& terminal) {
  const int64_t width = group.tensors.front()->value.shape.back();
  Table table = TableOfRanks(std::min(kLikeliest, width));
  for (const auto& [tensor, row] : ShownRows(group.tensors)) {
    std::vector<Cell> cells = {{.text = tensor->descriptor.hook_point()},
                               {.text = RowName(group, *tensor, row)}};
    for (const auto& [id, probability] : Likeliest(*tensor, row)) {
      cells.push_back({.text = absl::StrFormat("%s %.1f%%", names.Of(id),
                                               probability * kPercent),
                       .style = RampStyle(probability)});
    }
    table.rows.push_back(std::move(cells));
  }
  return RenderWithNote(table, group.tensors, terminal);
}

}  // namespace phitap::cli
