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

// Weights of one head and query over the keys.
std::vector<double> RowOf(const TracedTensor& tensor, int64_t head,
                          int64_t query) {
  const std::vector<int64_t>& shape = tensor.value.shape;
  return client::ElementsAt(tensor.value, (head * shape[1] + query) * shape[2],
                            shape[2]);
}

std::vector<double> MeanOverHeads(const TracedTensor& tensor, int64_t query) {
  const int64_t heads = tensor.value.shape[0];
  std::vector<double> mean(tensor.value.shape[2], 0.0);
  for (int64_t head = 0; head < heads; ++head) {
    const std::vector<double> row = RowOf(tensor, head, query);
    for (size_t key = 0; key < mean.size(); ++key) {
      mean[key] += row[key] / static_cast<double>(heads);
    }
  }
  return mean;
}

bool HasOneQuery(const TracedTensor& tensor) {
  return tensor.value.shape[1] == 1 && tensor.value.shape[0] > 1;
}

// What the i-th captured head is called: by its own number where the request
// names it, since how many heads there are is not known here.
std::string HeadLabel(const v1::Selection& selection, int64_t i) {
  if (!selection.has_heads()) return absl::StrCat("head ", i);
  const v1::IndexSet& heads = selection.heads();
  return heads.ranges_size() == 0
             ? absl::StrCat("head ", heads.indices(static_cast<int>(i)))
             : absl::StrCat("selected ", i);
}

// The axis that runs down: heads where there is one query, else queries.
void AddRows(const TracedGroup& group, const TracedTensor& tensor,
             const std::vector<int64_t>& queries, Heatmap* heatmap) {
  if (HasOneQuery(tensor)) {
    for (int64_t i = 0; i < tensor.value.shape[0]; ++i) {
      heatmap->row_labels.push_back(HeadLabel(group.capture->selection(), i));
      heatmap->rows.push_back(RowOf(tensor, i, 0));
    }
    return;
  }
  for (size_t i = 0; i < queries.size(); ++i) {
    heatmap->row_labels.push_back(
        absl::StrCat(group.TokenAt(queries[i]), " ", queries[i]));
    heatmap->rows.push_back(MeanOverHeads(tensor, static_cast<int64_t>(i)));
  }
}

Heatmap HeatmapOf(const TracedGroup& group, const TracedTensor& tensor) {
  const v1::Selection& selection = group.capture->selection();
  const auto length = static_cast<int64_t>(group.run->ids.size());
  Heatmap heatmap;
  heatmap.column_numbers = Kept(selection.has_keys(), selection.keys(), length);
  for (const int64_t key : heatmap.column_numbers) {
    heatmap.column_labels.push_back(group.TokenAt(key));
  }
  AddRows(group, tensor,
          Kept(selection.has_queries(), selection.queries(), length), &heatmap);
  std::vector<double> all;
  for (const std::vector<double>& row : heatmap.rows) {
    all.insert(all.end(), row.begin(), row.end());
  }
  heatmap.range = RangeOf(all);
  heatmap.is_share =
      absl::EndsWith(tensor.descriptor.hook_point(), "probabilities");
  if (heatmap.is_share) heatmap.range.low = 0;
  return heatmap;
}

// What the rows and columns of a tensor's heatmap are.
std::string AxesOf(const TracedGroup& group, const TracedTensor& tensor) {
  const int64_t heads = tensor.value.shape[0];
  if (HasOneQuery(tensor)) {
    const v1::Selection& selection = group.capture->selection();
    const std::vector<int64_t> query =
        Kept(selection.has_queries(), selection.queries(),
             static_cast<int64_t>(group.run->ids.size()));
    return absl::StrCat(" at query ", query.front(), " ",
                        group.TokenAt(query.front()),
                        " (down: head, across: key)");
  }
  return absl::StrCat(
      heads == 1 ? "" : absl::StrCat(", mean of ", heads, " heads"),
      " (down: query, across: key)");
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
    absl::StrAppend(&text,
                    Painted(tensor.descriptor.hook_point(), {.bold = true},
                            terminal.colors),
                    AxesOf(group, tensor), "\n",
                    RenderHeatmap(HeatmapOf(group, tensor), terminal));
  }
  return text;
}

}  // namespace phitap::cli
