# python_packages(result FOLDER...): sets `result` to the folders that exist among the Python packages. The Python is that of
# the virtual environment, of Conda, or the first in PATH.
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
