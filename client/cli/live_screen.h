// A picture that takes the whole terminal and is drawn anew in place.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_LIVE_SCREEN_H_
#define PHITAP_CLIENT_CLI_LIVE_SCREEN_H_

#include <termios.h>

#include <functional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace phitap::cli {

// What is written to draw `picture` over what is there: at most `rows` lines,
// each line's rest and all below wiped out. 0 rows are any number.
std::string FrameOf(absl::string_view picture, int rows);

// While it lives, standard output shows the other screen without a cursor, and
// keys are not echoed. The terminal is as before afterwards.
class LiveScreen {
 public:
  // `on_quit` is called, on a thread of its own, when `q` is pressed or
  // standard input ends.
  explicit LiveScreen(std::function<void()> on_quit);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  void Draw(absl::string_view picture);

 private:
  void ReadKeys();

  const std::function<void()> on_quit_;
  termios before_ = {};
  bool has_keys_ = false;
  // Written to, to end the reading.
  int stop_[2] = {-1, -1};
  std::thread keys_;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_LIVE_SCREEN_H_
