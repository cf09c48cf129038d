# What the find modules of this folder share.

# The folders FOLDER... among the packages of the virtual environment or of the Python in PATH.
function(python_packages result)
  set(folders "")
  find_program(LOCKSTEP_PYTHON python3 HINTS $ENV{VIRTUAL_ENV}/bin $ENV{CONDA_PREFIX}/bin)
  mark_as_advanced(LOCKSTEP_PYTHON)
  if(LOCKSTEP_PYTHON)
    execute_process(COMMAND ${LOCKSTEP_PYTHON} -c "import sys; print(';'.join(p for p in sys.path if p.endswith('-packages')))"
                    OUTPUT_VARIABLE roots OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(root ${roots})
      foreach(folder ${ARGN})
        if(IS_DIRECTORY ${root}/${folder})
          list(APPEND folders ${root}/${folder})
        endif()
      endforeach()
    endforeach()
  endif()
  set(${result} ${folders} PARENT_SCOPE)
endfunction()

# "9.19.0" from the lines `#define MACRO number` of `header`.
function(header_version result header)
  set(numbers "")
  foreach(macro ${ARGN})
    file(STRINGS ${header} line REGEX "^#define +${macro} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE ".* ([0-9]+).*" "\\1" number "${line}")
    list(APPEND numbers ${number})
  endforeach()
  string(REPLACE ";" "." numbers "${numbers}")
  set(${result} ${numbers} PARENT_SCOPE)
endfunction()
