# cpack makes a Debian package of all that `cmake --install` installs. The preset `package` compiles for every x86-64
# processor with AVX2. A package for other processors has their name in its version, such as 0.1.0-native.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_CONTACT "Lockstep <lockstep@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trainer of neural networks on many processors, with MPI")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Programs that train and evaluate networks for images and texts, and a library of all-reduces. Compiled with -march=${LOCKSTEP_MARCH}.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# dpkg-shlibdeps finds the packages of the linked libraries. Also a run of one rank needs mpirun's files; sweep_runs is a script.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, python3 (>= 3.11)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libheif-plugin-libde265, libheif-plugin-dav1d")  # Debian 12 has both in libheif1
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libopenmpi-dev, libfmt-dev, slurm-client")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(NOT LOCKSTEP_MARCH STREQUAL x86-64-v3)
  string(REPLACE - . CPACK_DEBIAN_PACKAGE_RELEASE ${LOCKSTEP_MARCH})
endif()
include(CPack)
