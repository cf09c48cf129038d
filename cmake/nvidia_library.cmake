# Shared by FindCUDNN.cmake and FindNCCL.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/python_packages.cmake)

# Sets `result` to a version such as "9.19.0", from the lines `#define MACRO number` of `header`.
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

# find_nvidia_library(PACKAGE library major header MACROS M... WHEELS F...): the find module of PACKAGE. It searches
# -DPACKAGE_ROOT, $PACKAGE_ROOT, the toolkit, and the folders F among the packages of the Python in PATH. A wheel contains
# lib<library>.so.<major> but no lib<library>.so. The macros M of the header contain the version.
macro(find_nvidia_library package library major header)
  cmake_parse_arguments(FIND "" "" "MACROS;WHEELS" ${ARGN})
  python_packages(${package}_PACKAGES ${FIND_WHEELS})
  find_path(${package}_INCLUDE_DIR ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS} ${${package}_PACKAGES}
            PATH_SUFFIXES include)
  find_library(${package}_LIBRARY NAMES ${library} lib${library}.so.${major}
               HINTS ${CUDAToolkit_LIBRARY_DIR} ${${package}_PACKAGES} PATH_SUFFIXES lib64 lib)
  if(${package}_INCLUDE_DIR)
    header_version(${package}_VERSION ${${package}_INCLUDE_DIR}/${header} ${FIND_MACROS})
  endif()
  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(${package} REQUIRED_VARS ${package}_LIBRARY ${package}_INCLUDE_DIR
                                    VERSION_VAR ${package}_VERSION)
  if(${package}_FOUND AND NOT TARGET ${package}::${library})
    add_library(${package}::${library} SHARED IMPORTED)
    set_target_properties(${package}::${library} PROPERTIES IMPORTED_LOCATION ${${package}_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${${package}_INCLUDE_DIR})
  endif()
  mark_as_advanced(${package}_INCLUDE_DIR ${package}_LIBRARY)
endmacro()
