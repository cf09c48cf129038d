# Writes HEADER with the git revision of SOURCE (empty outside git), but only if the content changes.
cmake_minimum_required(VERSION 3.22)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(text "#pragma once\n#define LOCKSTEP_REVISION \"${revision}\"\n")
set(old "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${HEADER} "${text}")
endif()
