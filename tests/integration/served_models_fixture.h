// One server for all tests of a file: the demo model, and a tiny checkpoint
// without a tokenizer.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_INTEGRATION_SERVED_MODELS_FIXTURE_H_
#define PHITAP_TESTS_INTEGRATION_SERVED_MODELS_FIXTURE_H_

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "phitap/v1/trace.pb.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/server_process.h"
#include "tests/support/trace_answer.h"

namespace phitap {

// A run of token ids.
inline void AddRun(v1::TraceRequest& request, std::initializer_list<int> ids,
                   const std::string& label = "") {
  v1::Run& run = *request.add_runs();
  run.set_label(label);
  for (int id : ids) run.mutable_prompt()->mutable_tokens()->add_ids(id);
}

inline v1::Capture& AddCapture(v1::TraceRequest& request,
                               const std::string& hook_points) {
  v1::Capture& capture = *request.add_captures();
  capture.set_hook_points(hook_points);
  return capture;
}

// Of the demo model: one run of three tokens, one layer.
inline v1::TraceRequest GoodRequest() {
  v1::TraceRequest request;
  request.set_model("demo");
  AddRun(request, {1, 5, 9}, "a");
  AddCapture(request, "layers.0.layer_output");
  return request;
}

class ServedModelsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    TinyCheckpoint(TinyKind::kLongRope).Write(*folder_);
    server_ =
        new ServerProcess({"--model", "demo=" PHITAP_DEMO_MODEL, "--model",
                           "tiny=" + folder_->path(), "--threads", "2",
                           "--max-response-bytes", "64MiB"});
    ASSERT_NE(server_->AwaitAddress(), "") << server_->Output();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete folder_;
  }

  v1::ActivationService::Stub& stub() { return server_->stub(); }
  ServerProcess& server() { return *server_; }

  void ExpectWorks() {
    const TraceAnswer answer = Trace(stub(), GoodRequest());
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    ASSERT_TRUE(answer.summary.has_value());
    ASSERT_EQ(answer.summary->runs(0).code(), 0);
    ASSERT_EQ(answer.bytes.size(), 1u);
  }

 private:
  static inline TempFolder* folder_ = nullptr;
  static inline ServerProcess* server_ = nullptr;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_INTEGRATION_SERVED_MODELS_FIXTURE_H_
