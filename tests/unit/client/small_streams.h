// Streams of a trace, message by message, as a server would send them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_CLIENT_SMALL_STREAMS_H_
#define PHITAP_TESTS_UNIT_CLIENT_SMALL_STREAMS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/response_wire.h"
#include "phitap/v1/trace.pb.h"
#include "xxhash.h"

namespace phitap::client {

// One run `0` of three tokens, one float32 tensor [3, 2] in two chunks.
inline std::vector<float> SmallValues() { return {1, 2, 3, -4, 0.5, 1e9}; }

inline std::string SmallBytes() {
  const std::vector<float> values = SmallValues();
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline v1::TraceResponse SmallDescriptor(int32_t number,
                                         const std::string& hook_point) {
  v1::TraceResponse message;
  v1::TensorDescriptor& tensor = *message.mutable_tensor();
  tensor.set_tensor(number);
  tensor.set_label(hook_point);
  tensor.set_run("0");
  tensor.set_hook_point(hook_point);
  tensor.set_dtype(v1::DATA_TYPE_F32);
  tensor.add_shape(3);
  tensor.add_shape(2);
  tensor.add_dimension_names("seq");
  tensor.add_dimension_names("hidden_size");
  tensor.set_size_bytes(24);
  return message;
}

inline v1::TraceResponse SmallChunk(int32_t number, int64_t offset,
                                    const std::string& data) {
  v1::TraceResponse message;
  message.mutable_chunk()->set_tensor(number);
  message.mutable_chunk()->set_offset_bytes(offset);
  message.mutable_chunk()->set_data(data);
  return message;
}

// Messages of a stream that a test may spoil before it sends them.
struct SmallStream {
  enum Place { kHeader, kRun, kTensor, kFirstChunk, kLastChunk, kSummary };

  SmallStream() {
    messages.resize(kSummary + 1);
    v1::TraceHeader& header = *messages[kHeader].mutable_header();
    header.set_request_id("r-1");
    header.set_model("small");
    header.set_numerics(v1::NUMERICS_CAUSAL);
    header.set_attention(v1::ATTENTION_SDPA);
    header.set_batch_invariant(true);
    header.set_weights_digest("d16e57");
    header.set_tensor_count(1);
    header.set_size_bytes(24);
    v1::RunTokens& run = *messages[kRun].mutable_run_tokens();
    run.set_run("0");
    for (const int32_t id : {7, 8, 9}) run.add_ids(id);
    for (const char* text : {"When", " Mary", "\n"}) run.add_texts(text);
    messages[kTensor] = SmallDescriptor(0, "layers.0.layer_output");
    const std::string bytes = SmallBytes();
    messages[kFirstChunk] = SmallChunk(0, 0, bytes.substr(0, 10));
    messages[kLastChunk] = SmallChunk(0, 10, bytes.substr(10));
    messages[kLastChunk].mutable_chunk()->set_xxh3(
        XXH3_64bits(bytes.data(), bytes.size()));
    v1::TraceSummary& summary = *messages[kSummary].mutable_summary();
    summary.add_runs()->set_run("0");
    summary.set_tensor_count(1);
    summary.set_size_bytes(24);
    summary.set_token_layers_computed(6);
  }

  std::vector<v1::TraceResponse> messages;
};

// A message as DecodeResponse would hand it out; the data is the message's.
inline ReceivedResponse Received(const v1::TraceResponse& message) {
  ReceivedResponse response = {.message = message};
  if (!message.has_chunk()) return response;
  const std::string& data = message.chunk().data();
  response.chunk_data = {
      {reinterpret_cast<const std::byte*>(data.data()), data.size()}};
  return response;
}

}  // namespace phitap::client

#endif  // PHITAP_TESTS_UNIT_CLIENT_SMALL_STREAMS_H_
