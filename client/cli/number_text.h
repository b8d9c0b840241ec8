// Numbers for people.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_NUMBER_TEXT_H_
#define PHITAP_CLIENT_CLI_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace phitap::cli {

// "17 B", "1.5 kB", "403 MB": powers of 1000.
std::string BytesText(int64_t bytes);

// "2.31 GB/s".
std::string RateText(double bytes_per_second);

// "3.82 B" parameters and the like: "1.23 M", "42".
std::string CountText(int64_t count);

// "0.4 ms", "1.25 s".
std::string DurationText(absl::Duration duration);

// "[14, 64]".
std::string ShapeText(absl::Span<const int64_t> shape);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_NUMBER_TEXT_H_
