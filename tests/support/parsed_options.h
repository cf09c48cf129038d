// The options of a training program from the words of a test.
#pragma once

#include "apps/run/training_program.h"

namespace lockstep {

/// parse_options() of `words` behind the program's name; null: `text` is the whole answer.
inline std::unique_ptr<const Options> parsed_options(std::vector<std::string> words,
                                                     const Program& program, std::string& text) {
  words.insert(words.begin(), program.name);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return parse_options(static_cast<int>(words.size()), argv.data(), program, text);
}

}  // namespace lockstep
