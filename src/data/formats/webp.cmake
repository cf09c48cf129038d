# WebP images by libwebp.
find_path(WEBP_INCLUDE_DIR webp/demux.h)
find_library(WEBP_LIBRARY webp)
find_library(WEBP_DEMUX_LIBRARY webpdemux)
read_images_by("${WEBP_INCLUDE_DIR}" "${WEBP_LIBRARY}" "${WEBP_DEMUX_LIBRARY}")
