// What the engine holds and does at one moment.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ENGINE_ACTIVITY_H_
#define PHITAP_SERVER_SCHEDULE_ENGINE_ACTIVITY_H_

#include <cstdint>
#include <map>
#include <string>

namespace phitap {

// What one caller has there.
struct CallerShare {
  // Requests of which nothing is in a wave, and the others.
  int queued_requests = 0;
  int running_requests = 0;
  // Of answers that are queued, computed or not yet sent, and what is held for
  // them.
  int64_t undelivered_bytes = 0;
};

// Waves under way.
struct WavesUnderWay {
  int count = 0;
  int64_t tokens = 0;
  int64_t workspace_bytes = 0;
};

struct EngineActivity {
  // By Submission::caller: those that have something there.
  std::map<std::string, CallerShare> callers;
  WavesUnderWay waves;
  int64_t undelivered_bytes = 0;
  // Of rows that are kept for later waves.
  int64_t root_bytes = 0;

  int queued_requests() const {
    int count = 0;
    for (const auto& [caller, share] : callers) count += share.queued_requests;
    return count;
  }
  int running_requests() const {
    int count = 0;
    for (const auto& [caller, share] : callers) count += share.running_requests;
    return count;
  }
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ENGINE_ACTIVITY_H_
