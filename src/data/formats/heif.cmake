# HEIC and AVIF images by libheif.
find_path(HEIF_INCLUDE_DIR libheif/heif.h)
find_library(HEIF_LIBRARY heif)
read_images_by("${HEIF_INCLUDE_DIR}" "${HEIF_LIBRARY}")
