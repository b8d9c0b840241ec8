// A whole trace, as a client receives it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_TRACE_ANSWER_H_
#define PHITAP_TESTS_SUPPORT_TRACE_ANSWER_H_

#include <gtest/gtest.h>
#include <xxhash.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "phitap/v1/activation_service.grpc.pb.h"

namespace phitap {

struct TraceAnswer {
  grpc::Status status;
  std::optional<v1::TraceHeader> header;
  std::vector<v1::RunTokens> runs;
  std::map<int, v1::TensorDescriptor> tensors;
  // By tensor number.
  std::map<int, std::string> bytes;
  std::vector<v1::GeneratedToken> tokens;
  std::vector<v1::Progress> progress;
  std::optional<v1::TraceSummary> summary;

  // The bytes of the tensor named so, which must be there.
  const std::string& Bytes(const std::string& run, const std::string& label,
                           const std::string& part = "") const {
    for (const auto& [number, tensor] : tensors) {
      if (tensor.run() == run && tensor.label() == label &&
          tensor.part() == part) {
        return bytes.at(number);
      }
    }
    throw std::out_of_range(absl::StrCat(run, " ", label, " ", part));
  }
};

// Takes one message of a stream; checks order, offsets and hashes.
inline void Take(const v1::TraceResponse& response, TraceAnswer& answer) {
  ASSERT_FALSE(answer.summary.has_value()) << "a message after the summary";
  ASSERT_EQ(response.has_header(), !answer.header.has_value());
  if (response.has_header()) answer.header = response.header();
  if (response.has_run_tokens()) answer.runs.push_back(response.run_tokens());
  if (response.has_token()) answer.tokens.push_back(response.token());
  if (response.has_progress()) answer.progress.push_back(response.progress());
  if (response.has_summary()) answer.summary = response.summary();
  if (response.has_tensor()) {
    answer.tensors[response.tensor().tensor()] = response.tensor();
  }
  if (!response.has_chunk()) return;
  const v1::TensorChunk& chunk = response.chunk();
  ASSERT_TRUE(answer.tensors.count(chunk.tensor()));
  std::string& bytes = answer.bytes[chunk.tensor()];
  ASSERT_EQ(chunk.offset_bytes(), static_cast<int64_t>(bytes.size()));
  ASSERT_LE(chunk.data().size(), size_t{1} << 20);
  bytes += chunk.data();
  const bool last = static_cast<int64_t>(bytes.size()) ==
                    answer.tensors[chunk.tensor()].size_bytes();
  ASSERT_EQ(chunk.has_xxh3(), last);
  if (last) {
    ASSERT_EQ(chunk.xxh3(), XXH3_64bits(bytes.data(), bytes.size()));
  }
}

// Sends a request and reads the answer to its end.
inline TraceAnswer Trace(v1::ActivationService::Stub& stub,
                         const v1::TraceRequest& request) {
  TraceAnswer answer;
  grpc::ClientContext context;
  const auto reader = stub.Trace(&context, request);
  v1::TraceResponse response;
  while (reader->Read(&response)) Take(response, answer);
  answer.status = reader->Finish();
  return answer;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_TRACE_ANSWER_H_
