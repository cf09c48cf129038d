# BMP and GIF images by stb_image, which is a single header.
find_path(STB_INCLUDE_DIR stb_image.h PATH_SUFFIXES stb)
read_images_by("${STB_INCLUDE_DIR}")
