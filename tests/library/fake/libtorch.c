/* What the library uses of PyTorch's stable C interface, without PyTorch: tensors of the host's memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Tensor {
  void* data;
  int64_t dim, sizes[16], strides[16];
  int32_t dtype;
  int owns;
} Tensor;

enum { BF16 = 15, F32 = 6 };
int live_tensors = 0;
int32_t device_of_tensors = 0;
void (*registered_kernel)(uint64_t*, uint64_t, uint64_t) = NULL;

static int64_t extent_of(const Tensor* tensor) {
  int64_t last = 1;
  for (int64_t i = 0; i < tensor->dim; ++i) {
    if (tensor->sizes[i] == 0) return 0;
    last += (tensor->sizes[i] - 1) * tensor->strides[i];
  }
  return last;
}

Tensor* make_tensor(void* data, int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  Tensor* made = calloc(1, sizeof(Tensor));
  made->dim = dim;
  for (int64_t i = 0; i < dim; ++i) made->sizes[i] = sizes[i], made->strides[i] = strides[i];
  made->dtype = dtype;
  made->owns = data == NULL;
  made->data = data != NULL ? data : calloc(1, (size_t)(extent_of(made) * (dtype == BF16 ? 2 : 4) + 64));
  ++live_tensors;
  return made;
}

int32_t aoti_torch_library_init_impl(const char* ns, const char* key, const char* file, uint32_t line, void** made) {
  (void)file, (void)line;
  static int library;
  *made = &library;
  return strcmp(ns, "ecmv") != 0 || strcmp(key, "CPU") != 0;
}
int32_t aoti_torch_library_impl(void* library, const char* name, void (*kernel)(uint64_t*, uint64_t, uint64_t)) {
  (void)library;
  registered_kernel = kernel;
  return strcmp(name, "linear") != 0;
}
int32_t aoti_torch_delete_tensor_object(Tensor* tensor) {
  if (tensor->owns) free(tensor->data);
  free(tensor);
  --live_tensors;
  return 0;
}
int32_t aoti_torch_get_data_ptr(Tensor* tensor, void** data) { return *data = tensor->data, 0; }
int32_t aoti_torch_get_dim(Tensor* tensor, int64_t* dim) { return *dim = tensor->dim, 0; }
int32_t aoti_torch_get_sizes(Tensor* tensor, int64_t** sizes) { return *sizes = tensor->sizes, 0; }
int32_t aoti_torch_get_strides(Tensor* tensor, int64_t** strides) { return *strides = tensor->strides, 0; }
int32_t aoti_torch_get_dtype(Tensor* tensor, int32_t* dtype) { return *dtype = tensor->dtype, 0; }
int32_t aoti_torch_get_device_type(Tensor* tensor, int32_t* type) {
  (void)tensor;
  return *type = device_of_tensors, 0;
}
int32_t aoti_torch_get_device_index(Tensor* tensor, int32_t* index) { return (void)tensor, *index = 0, 0; }
int32_t aoti_torch_empty_strided(int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                 int32_t device_type, int32_t device, Tensor** made) {
  *made = make_tensor(NULL, dim, sizes, strides, dtype);
  return device_type != 0 || device != 0;
}
/* Of float32 alone. */
int32_t aoti_torch_copy_(Tensor* to, Tensor* from, int32_t non_blocking) {
  (void)non_blocking;
  int64_t at[16] = {0};
  while (extent_of(to) > 0) {
    int64_t source = 0, target = 0, i = to->dim - 1;
    for (int64_t k = 0; k < to->dim; ++k) source += at[k] * from->strides[k], target += at[k] * to->strides[k];
    ((float*)to->data)[target] = ((const float*)from->data)[source];
    while (i >= 0 && ++at[i] == to->sizes[i]) at[i--] = 0;
    if (i < 0) break;
  }
  return to->dtype != F32;
}
int32_t aoti_torch_dtype_bfloat16(void) { return BF16; }
int32_t aoti_torch_dtype_float32(void) { return F32; }
int32_t aoti_torch_device_type_cpu(void) { return 0; }
int32_t aoti_torch_device_type_cuda(void) { return 1; }
