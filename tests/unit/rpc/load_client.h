// One of the clients that load a server over gRPC: traces, keeps, looks around,
// gives up.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_RPC_LOAD_CLIENT_H_
#define PHITAP_TESTS_UNIT_RPC_LOAD_CLIENT_H_

#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "phitap/v1/activation_service.grpc.pb.h"

namespace phitap {

struct LoadClientOptions {
  std::string address;
  // That it asks of.
  std::vector<std::string> models = {"tiny"};
  // Of this client's tensor, too.
  std::string name;
  unsigned seed = 0;
  // Says who calls; null where nobody does.
  std::function<void(grpc::ClientContext&)> sign;
  // Codes of refusals, beside UNAVAILABLE.
  std::set<grpc::StatusCode> refusals;
};

// What became of traces that were to be answered.
struct CallCounts {
  int answered = 0;
  int refused = 0;
};

// With a connection of its own. Checks that answers are whole and right, and
// refusals allowed. Thread-compatible.
class LoadClient {
 public:
  explicit LoadClient(LoadClientOptions options);

  // Any of the calls.
  void CallOnce();
  // A trace that must be answered or refused. Returns how it ended.
  grpc::Status TraceOnce();

  const CallCounts& counts() const { return counts_; }

 private:
  // Whether its tensor is on the server, as far as it can tell.
  enum class Kept { kNo, kYes, kPerhaps };

  int Below(int end) { return static_cast<int>(random_() % end); }
  std::unique_ptr<grpc::ClientContext> NewCall() const;
  v1::TraceRequest DrawTrace(int most_tokens);
  bool IsRefusal(const grpc::Status& status) const;

  // Reads some messages, then cancels, expires or lets go.
  void GiveUp();
  void Keep();
  // Of itself, by a trace.
  void KeepByTrace();
  void LookAround();
  void Delete();

  const LoadClientOptions options_;
  const std::unique_ptr<v1::ActivationService::Stub> stub_;
  std::mt19937 random_;
  Kept kept_ = Kept::kNo;
  CallCounts counts_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_RPC_LOAD_CLIENT_H_
