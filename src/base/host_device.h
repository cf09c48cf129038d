// HOST_DEVICE: in front of what a kernel calls as well as the host. Outside of nvcc it is nothing.
#pragma once

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif
