/* Stored bytes of the codec `dfloat11`, which are those of the Python package dfloat11 (Zhang et al., arXiv
 * 2504.11651), and its kernels. A bf16 element is an exponent, which has a Huffman code, and a byte of sign and
 * mantissa, stored as it is. The codes are one stream of bits, most significant first; thread i of 512 in a block
 * begins at the first code that starts in its 8 bytes.
 *
 *   section "header"            (table)    u32: the most elements of a block, which the kernel's shared memory holds
 *   section "luts"              (table)    u8 [tables + 1, 256]: below 240 an exponent, from 240 on table 256 - entry;
 *                                          the last row has the lengths of the codes
 *   section "encoded_exponent"  (payload)  the codes; the last byte is filled up with the end symbol's first bits
 *   section "sign_mantissa"     (payload)  a byte an element
 *   section "output_positions"  (index)    u32 a block: its first element; and the number of elements
 *   section "gaps"              (index)    5 bits a thread, most significant first: bits from its first byte to its
 * first code; then a byte, since the kernel loads two at once
 */
#ifndef DFLOAT11_H
#define DFLOAT11_H

#include <ecmv_codec.h>

enum { HEADER, LUTS, CODES, SIGN_MANTISSA, POSITIONS, GAPS, SECTIONS };
enum {
  HEADER_BYTES = 4,
  ROW = 256,          /* entries of a table */
  POINTERS = 240,     /* first entry that points to another table */
  MAX_TABLES = 17,    /* the first one, and those that pointers reach */
  MAX_CODE_BITS = 32, /* the kernel looks at 4 bytes */
  THREAD_BYTES = 8,
  THREAD_BITS = 8 * THREAD_BYTES,
  BLOCK_THREADS = 512,
  BLOCK_BYTES = THREAD_BYTES * BLOCK_THREADS,
  GAP_BITS = 5,
  GAP_BYTES = BLOCK_THREADS * GAP_BITS / 8 /* of a block */
};

/* The package's kernel on CUDA, and its steps on the emulator. */
const char* dfloat11_refuses(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy);
const char* dfloat11_bind(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy, int64_t tokens,
                          ecmv_gpu_binding* binding);
const char* dfloat11_decode(const ecmv_gpu_call* call, const ecmv_decode_args* args);
const char* dfloat11_bind_steps(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy,
                                int64_t tokens, ecmv_gpu_binding* binding);
const char* dfloat11_decode_steps(const ecmv_gpu_call* call, const ecmv_decode_args* args);

#endif
