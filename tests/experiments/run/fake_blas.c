/* Libraries that pose as a BLAS: one multiplies by plain loops, the other's threads cannot be set. */
#ifdef WITH_THREADS
void openblas_set_num_threads(int threads) { (void)threads; }
#endif

void cblas_sgemm(int order, int of_a, int of_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc) {
  if (order != 101 || of_a != 111 || of_b != 112 || alpha != 1 || beta != 0) return;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += a[i * lda + l] * b[j * ldb + l];
      c[i * ldc + j] = sum;
    }
}
