#include "client/cli/attention_view.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/heatmap.h"
#include "client/cpp/float_values.h"
#include "client/cpp/positions.h"

namespace phitap::cli {
namespace {

using client::TracedTensor;

constexpr size_t kMostHeatmaps = 4;

// The indices of an axis that a set keeps; all where it is unset.
std::vector<int64_t> Kept(bool is_set, const v1::IndexSet& set, int64_t size) {
  v1::IndexSet all;
  all.add_ranges();
  return client::ResolveIndices(is_set ? set : all, size);
}

std::vector<double> MeanOverHeads(const TracedTensor& tensor, int64_t query) {
  const std::vector<int64_t>& shape = tensor.value.shape;
  const int64_t heads = shape[0];
  const int64_t queries = shape[1];
  const int64_t keys = shape[2];
  std::vector<double> mean(keys, 0.0);
  for (int64_t head = 0; head < heads; ++head) {
    const std::vector<double> row =
        client::ElementsAt(tensor.value, (head * queries + query) * keys, keys);
    for (int64_t key = 0; key < keys; ++key) {
      mean[key] += row[key] / static_cast<double>(heads);
    }
  }
  return mean;
}

Heatmap HeatmapOf(const TracedGroup& group, const TracedTensor& tensor) {
  const v1::Selection& selection = group.capture->selection();
  const auto length = static_cast<int64_t>(group.run->ids.size());
  Heatmap heatmap;
  heatmap.column_numbers = Kept(selection.has_keys(), selection.keys(), length);
  const std::vector<int64_t> queries =
      Kept(selection.has_queries(), selection.queries(), length);
  std::vector<double> all;
  for (size_t i = 0; i < queries.size(); ++i) {
    heatmap.row_labels.push_back(
        absl::StrCat(group.TokenAt(queries[i]), " ", queries[i]));
    heatmap.rows.push_back(MeanOverHeads(tensor, static_cast<int64_t>(i)));
    all.insert(all.end(), heatmap.rows.back().begin(),
               heatmap.rows.back().end());
  }
  heatmap.range = RangeOf(all);
  if (absl::EndsWith(tensor.descriptor.hook_point(), "probabilities")) {
    heatmap.range = {.low = 0, .high = 1};
  }
  return heatmap;
}

}  // namespace

bool IsAttention(const v1::TensorDescriptor& tensor) {
  return tensor.shape_size() == 3 && tensor.dimension_names_size() == 3 &&
         tensor.dimension_names(1) == "query" &&
         tensor.dimension_names(2) == "key";
}

std::string RenderAttention(const TracedGroup& group,
                            const Terminal& terminal) {
  const size_t count = group.tensors.size();
  const size_t first = count > kMostHeatmaps ? count - kMostHeatmaps : 0;
  std::string text;
  if (first > 0) {
    absl::StrAppend(&text, "(the first ", first, " of ", count,
                    " are not shown)\n");
  }
  for (size_t i = first; i < count; ++i) {
    const TracedTensor& tensor = *group.tensors[i];
    const int64_t heads = tensor.value.shape[0];
    absl::StrAppend(
        &text,
        Painted(tensor.descriptor.hook_point(), {.bold = true},
                terminal.colors),
        heads == 1 ? "" : absl::StrCat(", mean of ", heads, " heads"),
        " (down: query, across: key)\n",
        RenderHeatmap(HeatmapOf(group, tensor), terminal));
  }
  return text;
}

}  // namespace phitap::cli
