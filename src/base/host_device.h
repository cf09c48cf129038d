// HOST_DEVICE marks functions that kernels and the host call. Outside of nvcc it is empty.
#pragma once

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif
