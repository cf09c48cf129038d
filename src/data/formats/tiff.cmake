# TIFF images by libtiff. Version 4.5 limits its memory.
find_package(TIFF 4.5)
read_images_by("${TIFF_INCLUDE_DIRS}" "${TIFF_LIBRARIES}")
