# Writes the man page and the bash completion that PROGRAM prints: MAN and COMPLETION. A program for other processors cannot
# run here. Then both files are left out, with a note.
cmake_minimum_required(VERSION 3.22)
foreach(kind man completion)
  string(TOUPPER ${kind} file)
  execute_process(COMMAND ${PROGRAM} --print-${kind} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_QUIET TIMEOUT 60)
  file(REMOVE ${${file}})
  if(result EQUAL 0 AND text)
    file(WRITE ${${file}} "${text}")
  else()
    message(STATUS "note: ${PROGRAM} does not run here: no ${${file}}")
  endif()
endforeach()
