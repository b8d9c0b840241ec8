// The C++ client under the stopwatch: does what each line of standard input
// asks for and answers with a line; measure.py drives it.
//
//   {"do": "send", "requests": ["a.pb", "b.pb"], "values": "folder"}
//       traces, each a serialized TraceRequest in a file, one after another;
//       where a folder is given, every tensor is written into it
//   {"do": "drop", "requests": ["a.pb"]}
//       the same, but what comes is dropped as gRPC hands it out: nothing is
//       copied, hashed or checked, and only the stream is timed
//   {"do": "list_models", "repeats": 3}
//   {"do": "raw_stream", "size_bytes": 1048576, "repeats": 3}
//
// An answer holds one entry for each request or repeat; lists that a request
// does not know are absent:
//
//   {"seconds": [...], "compute_seconds": [...], "queue_seconds": [...],
//    "stream_seconds": [...], "stream_bytes": [...], "size_bytes": [...],
//    "token_layers": [...], "tokens": [[[5, 9], ...], ...],
//    "tensors": [[{"file": "folder/0.0", "label": "logits", "run": "0",
//                  "part": "", "dtype": "float32", "shape": [1, 9]}], ...]}
//
// `stream_seconds` goes from the first tensor bytes to the last, and
// `stream_bytes` came in that time; `tokens` are those generated, by run. Ends
// at the first error, with a line on standard error.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/client.h"
#include "client/cpp/response_stream.h"
#include "client/cpp/trace.h"
#include "client/cpp/wire_dtype.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "tests/bench/raw_stream.h"

namespace phitap {
namespace {

using client::Client;
using nlohmann::json;

// Of messages, those that are larger are taken for chunks of a tensor.
constexpr int64_t kSmallestChunkBytes = 256 << 10;

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
}

absl::StatusOr<v1::TraceRequest> ReadRequest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  v1::TraceRequest request;
  if (!file || !request.ParseFromIstream(&file)) {
    return absl::InvalidArgumentError(path + " holds no TraceRequest");
  }
  return request;
}

absl::StatusOr<json> WriteTensor(const client::TracedTensor& tensor,
                                 const std::string& path) {
  const absl::Span<const std::byte> bytes = tensor.value.bytes;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) return absl::InternalError("cannot write " + path);
  const v1::TensorDescriptor& descriptor = tensor.descriptor;
  return json{{"file", path},
              {"label", descriptor.label()},
              {"run", descriptor.run()},
              {"part", descriptor.part()},
              {"dtype", client::WireName(descriptor.dtype())},
              {"shape", tensor.value.shape}};
}

absl::StatusOr<json> WriteTensors(const client::Trace& trace,
                                  const std::string& prefix) {
  json written = json::array();
  for (const client::TracedTensor& tensor : trace.tensors) {
    ASSIGN_OR_RETURN(json entry,
                     WriteTensor(tensor, absl::StrCat(prefix, written.size())));
    written.push_back(std::move(entry));
  }
  return written;
}

json TokensOf(const client::Trace& trace) {
  json runs = json::array();
  for (const client::TracedRun& run : trace.runs) {
    json ids = json::array();
    for (const client::GeneratedToken& token : run.generated) {
      ids.push_back(token.id);
    }
    runs.push_back(std::move(ids));
  }
  return runs;
}

// A trace with a failed run is no measurement.
absl::Status CheckRuns(const client::Trace& trace) {
  for (const client::TracedRun& run : trace.runs) {
    if (run.status.code() != 0) {
      return absl::InternalError(run.status.ShortDebugString());
    }
  }
  if (!trace.failed_cells.empty()) {
    return absl::InternalError(trace.failed_cells.front().ShortDebugString());
  }
  return absl::OkStatus();
}

// When a trace's bytes came.
class Arrival {
 public:
  void Note(const client::TraceProgress& progress) {
    if (progress.received_bytes == last_bytes_) return;
    if (first_bytes_ == 0) {
      first_bytes_ = progress.received_bytes;
      first_ = progress.elapsed;
    }
    last_bytes_ = progress.received_bytes;
    last_ = progress.elapsed;
  }

  int64_t bytes() const { return last_bytes_ - first_bytes_; }
  double seconds() const { return absl::ToDoubleSeconds(last_ - first_); }

 private:
  int64_t first_bytes_ = 0;
  int64_t last_bytes_ = 0;
  absl::Duration first_;
  absl::Duration last_;
};

absl::StatusOr<client::Trace> TimeTrace(const Client& client,
                                        const v1::TraceRequest& request,
                                        json& answer) {
  Arrival arrival;
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(
      client::Trace trace,
      client.Trace(request, {},
                   {.on_progress = [&](const auto& p) { arrival.Note(p); }}));
  answer["seconds"].push_back(absl::ToDoubleSeconds(absl::Now() - start));
  const v1::TraceSummary& summary = trace.summary;
  answer["compute_seconds"].push_back(Seconds(summary.compute_time()));
  answer["queue_seconds"].push_back(Seconds(summary.queue_time()));
  answer["stream_seconds"].push_back(arrival.seconds());
  answer["stream_bytes"].push_back(arrival.bytes());
  answer["size_bytes"].push_back(summary.size_bytes());
  answer["token_layers"].push_back(summary.token_layers_computed());
  answer["tokens"].push_back(TokensOf(trace));
  RETURN_IF_ERROR(CheckRuns(trace));
  return trace;
}

absl::StatusOr<json> TimeTraces(const Client& client, const json& asked) {
  std::vector<v1::TraceRequest> requests;
  for (const json& path : asked.at("requests")) {
    ASSIGN_OR_RETURN(v1::TraceRequest request, ReadRequest(path));
    requests.push_back(std::move(request));
  }
  json answer;
  std::vector<client::Trace> traces;
  for (const v1::TraceRequest& request : requests) {
    ASSIGN_OR_RETURN(client::Trace trace, TimeTrace(client, request, answer));
    if (asked.contains("values")) traces.push_back(std::move(trace));
  }
  for (size_t i = 0; i < traces.size(); ++i) {
    const std::string folder = asked.at("values");
    ASSIGN_OR_RETURN(
        json written,
        WriteTensors(traces[i], absl::StrCat(folder, "/", i, ".")));
    answer["tensors"].push_back(std::move(written));
  }
  return answer;
}

// One as the client has it: a window of 8 MiB, a chunk in a frame.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// The server's own rate: tensor bytes are counted, not looked at.
absl::Status TimeDropped(const std::string& address,
                         const v1::TraceRequest& request, json& answer) {
  grpc::ClientContext context;
  client::ResponseStream stream(ChannelTo(address), &context, request);
  const absl::Time start = absl::Now();
  Arrival arrival;
  client::TraceProgress progress;
  grpc::ByteBuffer message;
  while (stream.Read(&message)) {
    const auto size = static_cast<int64_t>(message.Length());
    if (size < kSmallestChunkBytes) continue;
    progress.received_bytes += size;
    progress.elapsed = absl::Now() - start;
    arrival.Note(progress);
  }
  const grpc::Status status = stream.Finish();
  if (!status.ok()) return absl::InternalError(status.error_message());
  answer["stream_seconds"].push_back(arrival.seconds());
  answer["stream_bytes"].push_back(arrival.bytes());
  return absl::OkStatus();
}

absl::StatusOr<json> TimeDroppedTraces(const std::string& address,
                                       const json& asked) {
  json answer;
  for (const json& path : asked.at("requests")) {
    ASSIGN_OR_RETURN(const v1::TraceRequest request, ReadRequest(path));
    RETURN_IF_ERROR(TimeDropped(address, request, answer));
  }
  return answer;
}

absl::StatusOr<json> TimeListModels(const Client& client, const json& asked) {
  json answer;
  for (int repeat = 0; repeat < asked.at("repeats"); ++repeat) {
    const absl::Time start = absl::Now();
    RETURN_IF_ERROR(client.ListModels().status());
    answer["seconds"].push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  return answer;
}

absl::StatusOr<json> TimeRawStream(const json& asked) {
  ASSIGN_OR_RETURN(RawStream stream,
                   RawStream::Connect(asked.at("size_bytes")));
  json answer;
  for (int repeat = 0; repeat < asked.at("repeats"); ++repeat) {
    ASSIGN_OR_RETURN(const absl::Duration elapsed, stream.Send());
    answer["seconds"].push_back(absl::ToDoubleSeconds(elapsed));
  }
  return answer;
}

absl::StatusOr<json> Do(const Client& client, const std::string& address,
                        const json& asked) {
  const std::string what = asked.at("do");
  if (what == "send") return TimeTraces(client, asked);
  if (what == "drop") return TimeDroppedTraces(address, asked);
  if (what == "list_models") return TimeListModels(client, asked);
  if (what == "raw_stream") return TimeRawStream(asked);
  return absl::InvalidArgumentError("do: no such thing as " + what);
}

absl::Status Serve(const std::string& address) {
  ASSIGN_OR_RETURN(const Client client, Client::Connect({.address = address}));
  std::string line;
  while (std::getline(std::cin, line)) {
    ASSIGN_OR_RETURN(const json answer, Do(client, address, json::parse(line)));
    std::cout << answer.dump() << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace phitap

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_client HOST:PORT" << std::endl;
    return 2;
  }
  const absl::Status status = phitap::Serve(argv[1]);
  if (status.ok()) return 0;
  std::cerr << "bench_client: " << status.ToString() << std::endl;
  return 1;
}
