// The C++ client under the stopwatch: does what each line of standard input
// asks for and answers with a line; measure.py drives it.
//
//   {"do": "trace", "ids": [5, 9], "hook_points": "logits", "positions": [-1],
//    "repeats": 3}
//   {"do": "list_models", "repeats": 3}
//   {"do": "raw_stream", "size_bytes": 1048576, "repeats": 3}
//
// An answer holds one entry for each repeat; lists that a request does not
// know are absent:
//
//   {"seconds": [...], "compute_seconds": [...], "stream_seconds": [...],
//    "size_bytes": 1, "stream_bytes": 1, "token_layers": 1}
//
// `stream_seconds` goes from the first tensor bytes to the last, and
// `stream_bytes` came in that time. Ends at the first error, with a line on
// standard error.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/client.h"
#include "client/cpp/trace_request.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "tests/bench/raw_stream.h"

namespace phitap {
namespace {

using client::Client;
using nlohmann::json;

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
}

v1::TraceRequest RequestOf(const json& asked) {
  client::Read read = {.hook_points = asked.at("hook_points")};
  if (asked.contains("positions")) {
    read.selection.positions =
        client::Indices(asked.at("positions").get<std::vector<int32_t>>());
  }
  const auto ids = asked.at("ids").get<std::vector<int32_t>>();
  return client::ToRequest(
      {.runs = {client::TokensRun(ids)}, .captures = {read}});
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

absl::StatusOr<json> TimeTraces(const Client& client, const json& asked) {
  const v1::TraceRequest request = RequestOf(asked);
  json answer;
  for (int repeat = 0; repeat < asked.at("repeats"); ++repeat) {
    Arrival arrival;
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(
        const client::Trace trace,
        client.Trace(request, {},
                     {.on_progress = [&](const auto& p) { arrival.Note(p); }}));
    answer["seconds"].push_back(absl::ToDoubleSeconds(absl::Now() - start));
    answer["compute_seconds"].push_back(Seconds(trace.summary.compute_time()));
    answer["stream_seconds"].push_back(arrival.seconds());
    answer["stream_bytes"] = arrival.bytes();
    answer["size_bytes"] = trace.summary.size_bytes();
    answer["token_layers"] = trace.summary.token_layers_computed();
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

absl::StatusOr<json> Do(const Client& client, const json& asked) {
  const std::string what = asked.at("do");
  if (what == "trace") return TimeTraces(client, asked);
  if (what == "list_models") return TimeListModels(client, asked);
  if (what == "raw_stream") return TimeRawStream(asked);
  return absl::InvalidArgumentError("do: no such thing as " + what);
}

absl::Status Serve(const std::string& address) {
  ASSIGN_OR_RETURN(const Client client, Client::Connect({.address = address}));
  std::string line;
  while (std::getline(std::cin, line)) {
    ASSIGN_OR_RETURN(const json answer, Do(client, json::parse(line)));
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
