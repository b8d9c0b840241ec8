#include "client/cli/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/cpp/float_values.h"

namespace phitap::cli {

TensorStats StatsOf(const HostTensor& tensor) {
  TensorStats stats = {.low = std::numeric_limits<double>::infinity(),
                       .high = -std::numeric_limits<double>::infinity()};
  double sum = 0;
  double squares = 0;
  const int64_t count = ElementCount(tensor.shape);
  for (int64_t i = 0; i < count; ++i) {
    const double value = client::ElementAt(tensor, i);
    if (!std::isfinite(value)) {
      ++stats.not_finite;
      continue;
    }
    stats.low = std::min(stats.low, value);
    stats.high = std::max(stats.high, value);
    sum += value;
    squares += value * value;
  }
  const int64_t finite = count - stats.not_finite;
  if (finite == 0) return {.not_finite = stats.not_finite};
  stats.mean = sum / static_cast<double>(finite);
  stats.norm = std::sqrt(squares);
  return stats;
}

std::vector<double> NormsAlong(const HostTensor& tensor, int axis) {
  const int64_t size = tensor.shape[axis];
  int64_t inner = 1;
  for (size_t i = axis + 1; i < tensor.shape.size(); ++i) {
    inner *= tensor.shape[i];
  }
  std::vector<double> norms(size, 0.0);
  const int64_t count = ElementCount(tensor.shape);
  for (int64_t i = 0; i < count; ++i) {
    const double value = client::ElementAt(tensor, i);
    norms[i / inner % size] += value * value;
  }
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

}  // namespace phitap::cli
